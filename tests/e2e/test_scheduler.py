"""Pods of fairlead's scheduler on a real kubelet: each starts with the chosen accelerator."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.e2e.allocations import conflicts, read_allocations, results, watch_conflicts
from tests.e2e.api import CORE, Document, wait_for
from tests.e2e.install import Site
from tests.e2e.machines import SMALL_MIB, TWO_T4, two_small
from tests.e2e.pods import Pods
from tests.e2e.schedulers import (
    NAME,
    chosen_share,
    honours_placements,
    placement_rights,
    replace_agent,
    running_scheduler,
    without_annotations,
)

SHARE = "fairlead.dev/gpu-mem"
SIZES = (64, 96, 112, 128, 160)
MANY = 60
"""Containers of one pod."""


@pytest.fixture(scope="module")
def with_scheduler(installed: Site) -> Iterator[Site]:
    """Return the node, with a running scheduler and an agent that honours its placements."""
    if installed.customized:
        installed.install()
    with placement_rights(installed), running_scheduler(installed.lab):
        yield installed


@pytest.fixture
def two_gpus(with_scheduler: Site, pods: Pods) -> Pods:
    """Return a namespace for pods, on a machine with two GPUs."""
    with_scheduler.replay("server-t4", two_small)
    return pods


def test_of_fifty_pods_at_once_each_starts_with_its_chosen_share(site: Site, two_gpus: Pods) -> None:
    names = [f"pod-{number}" for number in range(50)]
    with watch_conflicts(site):
        two_gpus.start_with_limits(
            {name: {SHARE: SIZES[at % 5]} for at, name in enumerate(names)}, scheduler=NAME
        )
        two_gpus.start(["stock"], {SHARE: 64})
        two_gpus.wait_running([*names, "stock"])
        shares = assert_consistent(site, two_gpus, names)
    assert {device for device, _ in shares.values()} == set(TWO_T4)
    assert [int(shares[name][1]) for name in names] == [SIZES[at % 5] for at in range(50)]
    assert two_gpus.claims() == {}, "one write was enough for each"
    two_gpus.stop(two_gpus.all())
    site.wait_published()


def test_all_containers_of_a_pod_have_their_shares_of_the_chosen_accelerator(
    site: Site, two_gpus: Pods
) -> None:
    names = [f"pod-{number}" for number in range(4)]
    two_gpus.make(_with_more(two_gpus.manifest(name, {SHARE: 100}, scheduler=NAME)) for name in names)
    two_gpus.wait_running(names)
    made, held = two_gpus.all(), read_allocations(site).holdings
    environ = two_gpus.environ([*names, *(f"{name}-side" for name in names)])
    for name in names:
        device, size = chosen_share(made[name])
        assert size == "250"
        from_kubelet = {
            holding.holder.container: (holding.accelerator, holding.mebibytes)
            for holding in held
            if holding.holder.name == name
        }
        assert from_kubelet == {"main": (device, 100), "side": (device, 150)}
        assert {environ[key]["FAIRLEAD_DEVICE"] for key in (name, f"{name}-side")} == {device}
    assert {chosen_share(pod)[0] for pod in made.values()} == set(TWO_T4)
    assert two_gpus.claims() == {}


def _with_more(pod: Document) -> Document:
    """Return a pod with an additional init container and a second container, both with requests."""
    main = pod["spec"]["containers"][0]
    early = {**main, "name": "early", "command": ["true"], "resources": {"limits": {SHARE: "64"}}}
    named = [{**main["env"][0], "value": f"{main['env'][0]['value']}-side"}]
    side = {**main, "name": "side", "env": named, "resources": {"limits": {SHARE: "150"}}}
    return {**pod, "spec": {**pod["spec"], "initContainers": [early], "containers": [main, side]}}


def test_a_pod_with_many_containers_is_admitted_with_all_of_them_on_the_chosen_accelerator(
    site: Site, two_gpus: Pods
) -> None:
    many = two_gpus.manifest("many", {SHARE: 1}, scheduler=NAME)
    # Only admission matters here: starting the containers takes longer.
    main = {**many["spec"]["containers"][0], "image": "localhost/none:1"}
    many["spec"]["containers"] = [{**main, "name": f"c{at}"} for at in range(MANY)]
    two_gpus.make([many])
    wait_for("it to be bound", lambda: two_gpus.all()["many"]["spec"].get("nodeName"), two_gpus.explain)
    two_gpus.start(["next"], {SHARE: 1}, scheduler=NAME)
    two_gpus.wait_running(["next"])
    device, size = chosen_share(two_gpus.all()["many"])
    held = [holding for holding in read_allocations(site).holdings if holding.holder.name == "many"]
    assert (len(held), {(holding.accelerator, holding.mebibytes) for holding in held}) == (
        MANY,
        {(device, 1)},
    )
    assert size == str(MANY)
    assert not conflicts(read_allocations(site), site.inventory())
    assert_consistent(site, two_gpus, ["next"])


def test_a_higher_priority_pod_starts_on_the_device_of_its_two_victims(site: Site, two_gpus: Pods) -> None:
    kind, meta = "/apis/scheduling.k8s.io/v1/priorityclasses", {"name": two_gpus.namespace}
    site.api.create(kind, [{"metadata": meta, "value": 1000}])
    low, half = [f"low-{number}" for number in range(4)], {SHARE: SMALL_MIB // 2}
    try:
        two_gpus.start(low, half, scheduler=NAME)
        two_gpus.wait_running(low)
        two_gpus.start([f"waits-{number}" for number in range(3)], half, scheduler=NAME)
        two_gpus.wait_pending("waits-2", "accelerators can take waits-2")
        urgent = two_gpus.manifest("urgent", {SHARE: SMALL_MIB}, scheduler=NAME)
        two_gpus.make([{**urgent, "spec": {**urgent["spec"], "priorityClassName": meta["name"]}}])
        two_gpus.wait_running(["urgent"])
        staying = {name for name, pod in two_gpus.all().items() if "deletionTimestamp" not in pod["metadata"]}
        victims = set(low) - staying
        assert len(victims) == 2
        assert set(two_gpus.running()) == {*low, "urgent"} - victims, "no other pod took their shares"
        preemptor = f"{two_gpus.namespace}/urgent"
        assert all(f"make room for {preemptor}" in two_gpus.events(name) for name in victims)
        assert_consistent(site, two_gpus, ["urgent"])
    finally:
        site.api.delete([f"{kind}/{meta['name']}"])


def test_a_device_missing_from_its_slice_is_not_inferred_from_labels(site: Site, two_gpus: Pods) -> None:
    whole = {"fairlead.dev/t4": 1}
    two_gpus.start(["owner"], whole, scheduler=NAME)
    two_gpus.wait_running(["owner"])
    ((held, _),) = assert_consistent(site, two_gpus, ["owner"]).values()
    wait_for("the slice to leave it out", lambda: held not in site.offered(), site.diagnostics)
    assert site.labels()["fairlead.dev/t4.count"] == str(len(TWO_T4))
    with without_annotations(site) as label:
        rest = two_gpus.manifest("rest", whole, scheduler=NAME)
        two_gpus.make([{**rest, "spec": {**rest["spec"], "nodeSelector": label}}])
        two_gpus.wait_running(["rest"])
        assert two_gpus.claims().keys() == {"rest"}, "the scheduler uses the slice"
        two_gpus.start(["late"], whole, scheduler=NAME)
        two_gpus.wait_pending("late", "accelerators can take late")
        devices = [row["device"] for claim in two_gpus.claims().values() for row in results(claim)]
        assert devices == [device for device in TWO_T4 if device != held]


def test_pods_with_resources_of_other_sharers_get_claims_that_are_deleted_with_them(
    site: Site, two_gpus: Pods
) -> None:
    gpushare, hami = {"aliyun.com/gpu-mem": 1}, {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 600}
    limits = {f"pod-{at}": (gpushare, hami)[at % 2] for at in range(8)}
    with watch_conflicts(site):
        two_gpus.start_with_limits(limits, scheduler=NAME)
        two_gpus.wait_running(list(limits))
        shares = assert_consistent(site, two_gpus, list(limits))
    assert {name: size for name, (_, size) in shares.items()} == {
        f"pod-{at}": ("1024", "600")[at % 2] for at in range(8)
    }
    two_gpus.stop(limits)
    wait_for("their claims to be deleted", lambda: not two_gpus.claims(), two_gpus.explain)
    site.wait_published()


def test_whole_accelerators_and_claims_of_templates_are_allocated_as_chosen(
    site: Site, two_gpus: Pods
) -> None:
    two_gpus.template("some", 1000)
    two_gpus.start(["claim"], claim="some", scheduler=NAME)
    two_gpus.wait_running(["claim"])
    two_gpus.start(["whole"], {"fairlead.dev/t4": 1}, scheduler=NAME)
    two_gpus.wait_running(["whole"])
    shares = assert_consistent(site, two_gpus, ["claim", "whole"])
    assert {device for device, _ in shares.values()} == set(TWO_T4)
    assert shares["whole"][1] == "0"

    two_gpus.start(["late"], {"fairlead.dev/t4": 1}, scheduler=NAME)
    two_gpus.wait_pending("late", "accelerators can take late")
    two_gpus.stop(["claim", "whole"])
    two_gpus.start(["share"], {SHARE: SMALL_MIB}, scheduler=NAME)
    two_gpus.wait_running(["late", "share"])
    assert_consistent(site, two_gpus, ["late", "share"])
    two_gpus.stop(["late", "share"])
    site.wait_published()


def test_a_volume_is_bound_on_the_pods_node_and_mounted(site: Site, two_gpus: Pods, tmp_path: Path) -> None:
    (tmp_path / "greeting").write_text("hello")
    kind = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    size = {"storageClassName": "here", "accessModes": ["ReadWriteOnce"]}
    claim_spec = {**size, "resources": {"requests": {"storage": "1Gi"}}}
    place = {"key": "kubernetes.io/hostname", "operator": "In", "values": [site.node()["metadata"]["name"]]}
    volume = {
        **size,
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": str(tmp_path)},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [place]}]}},
    }
    pod = two_gpus.manifest("user", {SHARE: 64}, scheduler=NAME)
    pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    site.api.create("/apis/storage.k8s.io/v1/storageclasses", [{"metadata": {"name": "here"}, **kind}])
    try:
        two_gpus.make([pod])
        two_gpus.wait_pending("user", "no PersistentVolumeClaim")
        claims = f"{CORE}/namespaces/{two_gpus.namespace}/persistentvolumeclaims"
        site.api.create(claims, [{"metadata": {"name": "data"}, "spec": claim_spec}])
        two_gpus.wait_pending("user", "no free volume of class here")
        site.api.create(f"{CORE}/persistentvolumes", [{"metadata": {"name": "data"}, "spec": volume}])
        two_gpus.wait_running(["user"])
        assert_consistent(site, two_gpus, ["user"])
        assert two_gpus.run("user", "cat /data/greeting") == "hello"
        two_gpus.stop(["user"])
        site.api.delete([f"{claims}/data"])
    finally:
        site.api.delete([f"{CORE}/persistentvolumes/data", "/apis/storage.k8s.io/v1/storageclasses/here"])


def test_while_the_agent_is_replaced_no_pod_gets_another_share_than_the_chosen_one(
    site: Site, two_gpus: Pods
) -> None:
    size, count = {SHARE: 100}, 10
    first, second, third = ([f"{part}-{at}" for at in range(count)] for part in ("one", "two", "three"))
    with watch_conflicts(site):
        two_gpus.start(first, size, scheduler=NAME)
        wait_for("some to run", two_gpus.running, two_gpus.explain)
        replace_agent(site)
        two_gpus.start(second, size, scheduler=NAME)
        wait_for("all to run or be rejected", lambda: ended_or_running(two_gpus, 2 * count), two_gpus.explain)
        wait_for("a new agent that honours placements", lambda: honours_placements(site), site.diagnostics)
        two_gpus.start(third, size, scheduler=NAME)
        two_gpus.wait_running(third)
        assert_consistent(site, two_gpus, two_gpus.running())
    assert {failure_reason(pod) for pod in two_gpus.all().values()} <= {"", "UnexpectedAdmissionError"}
    two_gpus.stop(two_gpus.all())
    site.wait_published()


def assert_consistent(site: Site, pods: Pods, names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the chosen share of each pod; check that the kubelet's listing and the processes match it."""
    held, environ, made = read_allocations(site), pods.environ(names), pods.all()
    assert not conflicts(held, site.inventory())
    from_kubelet = {
        name: (holding.accelerator, str(holding.mebibytes))
        for name, holding in held.of(pods.namespace).items()
    }
    from_environment = {
        name: (environ[name]["FAIRLEAD_DEVICE"], environ[name].get("FAIRLEAD_MEMORY_MIB", "0"))
        for name in names
    }
    wanted = {name: chosen_share(made[name]) for name in names}
    assert {name: from_kubelet[name] for name in names} == wanted
    assert from_environment == wanted
    return wanted


def ended_or_running(pods: Pods, count: int) -> bool:
    """Return whether this number of pods run, or were rejected by the node."""
    failed = [name for name, pod in pods.all().items() if failure_reason(pod)]
    return len(pods.running()) + len(failed) == count


def failure_reason(pod: Document) -> str:
    """Return the kubelet's reason for rejecting a pod; empty if it did not."""
    status = pod["status"]
    return str(status.get("reason", "?")) if status.get("phase") == "Failed" else ""
