"""What a tenant edits on its own pods and claims changes neither what they hold nor what others can have."""

import json
from typing import Any

import msgspec
import pytest

from fairlead import keys
from fairlead.cache.cache import SchedulerCache
from fairlead.cache.translator import asks_for_devices
from fairlead.cache.types import CLAIMS, NODES, PLACEMENT, PODS, RULES
from fairlead.catalog import Catalog
from fairlead.cluster.watch.changes import ObjectChange
from tests.cache.test_cache import cache_of, shares
from tests.serve.scheduler.objects import claim, device_slice, node, pod, read

GARBAGE = {
    "compute": {keys.COMPUTE: "garbage"},
    "fraction": {keys.KAI_FRACTION: "NaN"},
    "count": {keys.COUNT: "-1"},
    "memory": {keys.KAI_MEMORY: "1"},
    "models": {keys.MODELS: "no-such-model"},
    "vendors": {keys.VENDORS: "none"},
    "precision": {keys.PRECISION: "fp13"},
    "model": {keys.MODEL: "never-heard-of"},
    "latency": {keys.SLO: "soon"},
    "gang": {keys.GANG: "x", keys.GANG_SIZE: "many"},
    "group": {keys.VOLCANO: "none"},
    "index": {keys.ALIYUN_INDEX: "1"},
}


def decided(device: str, mib: int) -> dict[str, str]:
    """Return the note of a binding."""
    share = {"device": device, "memory_bytes": mib << 20, "compute_milli": 0, "whole": False}
    return {PLACEMENT: json.dumps({"version": 1, "shares": [share]})}


def free(cache: SchedulerCache) -> list[int]:
    """Return the MiB that are left of each device of node n."""
    return [each.memory >> 20 for each in cache.cluster.free("n").devices]


@pytest.mark.parametrize("notes", GARBAGE.values(), ids=GARBAGE)
def test_a_decided_placement_counts_whatever_else_its_pod_carries(
    notes: dict[str, str], catalog: Catalog
) -> None:
    bound = pod("a", on="n", mib=4096, notes={**decided("gpu-0", 4096), **notes})
    assert free(cache_of(catalog, [node("n"), device_slice("n"), bound])) == [0, 4096]


def test_a_pod_keeps_its_placement_after_its_annotation_is_removed(
    catalog: Catalog,
) -> None:
    specs: tuple[dict[str, Any], ...] = (
        {},
        {"containers": [{"resources": {"limits": {"fairlead.dev/share": "1"}}}]},
    )
    for spec in specs:
        bound = pod("a", on="n", notes=decided("gpu-1", 4096), **spec)
        assert free(cache_of(catalog, [node("n"), device_slice("n"), bound])) == [4096, 0]


def test_cpu_memory_ports_and_rules_of_a_pod_count_with_garbage_annotations(
    catalog: Catalog,
) -> None:
    container = {
        "name": "main",
        "resources": {"requests": {"cpu": "2", "memory": "1Gi"}},
        "ports": [{"containerPort": 80, "hostPort": 80}],
    }
    apart = {"labelSelector": {}, "topologyKey": "zone"}
    spec: dict[str, Any] = {
        "containers": [container],
        "priority": 7,
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
    }
    notes: dict[str, str]
    for notes in ({}, {keys.COMPUTE: "garbage"}):
        cache = cache_of(catalog, [node("n"), device_slice("n"), pod("a", on="n", notes=notes, **spec)])
        left, placed = cache.cluster.free("n"), cache.cluster.placement("uid-a")
        assert placed is not None
        assert (left.cpu, left.memory >> 30, placed.request.priority) == (2000, 15, 7)
        assert (len(placed.request.pod_anti_affinity), placed.request.ports[0].number) == (1, 80)


def test_one_resource_that_cannot_be_read_hides_no_other(catalog: Catalog) -> None:
    asked = {"cpu": "2", "memory": "9E", "fairlead.dev/gpu-mem": "4096", "nvidia.com/gpumem": "1"}
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"requests": asked}}]}
    cache = cache_of(catalog, [node("n"), device_slice("n"), pod("a", on="n", **spec)])
    assert (cache.cluster.free("n").cpu, sorted(free(cache))) == (2000, [0, 4096])


def test_pods_that_request_exabytes_and_name_their_node_leave_it_no_room(catalog: Catalog) -> None:
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "resources": {"requests": {"memory": "4E", "a.dev/b": "4E"}}}]
    }
    ghosts = [pod(f"p{number}", on="n", **spec) for number in range(5)]
    left = cache_of(catalog, [node("n"), device_slice("n"), *ghosts]).cluster.free("n")
    assert left.memory < 0


def test_a_running_pod_is_read_again_when_its_owner_edits_it(catalog: Catalog) -> None:
    before = pod("a", on="n", mib=1024, notes=decided("gpu-0", 1024))
    document = msgspec.to_builtins(before)
    document["metadata"] |= {"labels": {"app": "web"}, "resourceVersion": "2"}
    cache = cache_of(catalog, [node("n"), device_slice("n"), before])
    cache.on_event(ObjectChange(before, read(PODS, document)))
    cache.sync()
    placed = cache.cluster.placement("uid-a")
    assert placed is not None
    assert placed.request.labels == {"app": "web"}, "as a scheduler that starts now would read it"


# Ghosts: pods that ask by what gives them nothing.


@pytest.mark.parametrize("scheduler", ["default-scheduler", "fairlead"])
def test_a_bound_pod_that_requests_by_annotation_alone_holds_no_accelerator(
    scheduler: str, catalog: Catalog
) -> None:
    asking = (
        {keys.KAI_FRACTION: "1"},
        {keys.KAI_MEMORY: "4096"},
        {keys.KAI_DEVICES: "1"},
        {keys.COMPUTE: "100%"},
        {keys.COUNT: "1"},
        {keys.MODEL: "m"},
    )
    ghosts = [
        pod(f"g{number}", on="n", notes=notes, schedulerName=scheduler) for number, notes in enumerate(asking)
    ]
    cache = cache_of(catalog, [node("n"), device_slice("n"), *ghosts])
    assert free(cache) == [4096, 4096]
    assert cache.cluster.free("n").pods == 10 - len(ghosts), "they count as pods of the node"


def test_a_bound_pod_holds_by_a_resource_only_what_its_node_has_a_plugin_for(catalog: Catalog) -> None:
    def ghost(name: str, resource: str) -> Any:
        spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"limits": {resource: "1"}}}]}
        return pod(name, on="n", schedulerName="default-scheduler", **spec)

    cache = cache_of(catalog, [node("n"), device_slice("n"), ghost("a", "nvidia.com/gpu")])
    assert free(cache) == [4096, 4096], "a kubelet admits it and ignores a resource without a plugin"
    real = msgspec.to_builtins(node("n"))
    real["status"]["allocatable"]["nvidia.com/gpu"] = "2"
    cache = cache_of(catalog, [read(NODES, real), device_slice("n"), ghost("a", "nvidia.com/gpu")])
    assert sorted(free(cache)) == [0, 4096]


def test_annotations_neither_shrink_nor_hide_what_a_pod_requests_by_resource(
    catalog: Catalog,
) -> None:
    for notes in ({}, {keys.COMPUTE: "1%"}, {keys.MODELS: "a100"}, {keys.ALIYUN_INDEX: "99"}):
        bound = pod("a", on="n", mib=4096, notes=notes, schedulerName="default-scheduler")
        assert sorted(free(cache_of(catalog, [node("n"), device_slice("n"), bound]))) == [0, 4096], notes
    gpushare: dict[str, Any] = {
        "containers": [{"name": "main", "resources": {"limits": {keys.ALIYUN_MEM: "4"}}}]
    }
    offers = msgspec.to_builtins(node("n"))
    offers["status"]["allocatable"] |= {keys.ALIYUN_MEM: "8", keys.ALIYUN_COUNT: "2"}
    for notes, left in (({keys.ALIYUN_INDEX: "0"}, [0, 4096]), ({keys.UNIT: "MiB"}, [0, 4096])):
        bound = pod("a", on="n", notes=notes, schedulerName="gpushare", **gpushare)
        assert free(cache_of(catalog, [read(NODES, offers), device_slice("n"), bound])) == left, notes


def test_an_admitted_pod_that_fits_nowhere_still_holds_its_devices(catalog: Catalog) -> None:
    full = [pod(name, on="n", mib=3072, notes=decided(f"gpu-{at}", 3072)) for at, name in enumerate("ab")]
    cache = cache_of(catalog, [node("n"), device_slice("n"), *full, pod("c", on="n", mib=2048)])
    assert sorted(free(cache)) == [-1024, 1024]


# Claims: their owners may write annotations, owner references and finalizers.


def owned(name: str, owner: Any, on: str = "n", mib: int = 1, device: str = "gpu-0") -> Any:
    """Return an allocated claim without consumers, whose owner reference names a pod."""
    document = msgspec.to_builtins(claim(name, owner, on=on, mib=mib))
    document["status"]["reservedFor"] = []
    document["status"]["allocation"]["devices"]["results"][0]["device"] = device
    return read(CLAIMS, document)


def test_a_claim_of_its_owner_hides_nothing_of_a_decided_placement(catalog: Catalog) -> None:
    bound = pod("a", on="n", mib=4096, notes=decided("gpu-0", 4096))
    for device, left in (("gpu-0", [0, 4096]), ("gpu-1", [0, 4095]), ("nic-0", [0, 4096])):
        world = [node("n"), device_slice("n"), bound, owned("tiny", bound, device=device)]
        assert free(cache_of(catalog, world)) == left


def test_a_claim_that_names_the_pod_of_another_namespace_as_its_owner_is_not_counted_for_it(
    catalog: Catalog,
) -> None:
    bound = pod("a", on="n", mib=4096)
    document = msgspec.to_builtins(owned("tiny", bound))
    document["metadata"]["namespace"] = "elsewhere"
    cache = cache_of(catalog, [node("n"), device_slice("n"), bound, read(CLAIMS, document)])
    assert sorted(free(cache)) == [0, 4095]
    assert shares(cache, "claim elsewhere/tiny") == [("gpu-0", 1)]


def test_a_claim_that_two_pods_share_is_counted_once_for_the_one_that_was_placed_with_it(
    catalog: Catalog,
) -> None:
    uses = [{"name": "it", "resourceClaimName": "c"}]
    first = pod("z", on="n", notes=decided("gpu-0", 1024), resourceClaims=uses)
    second = pod("b", on="n", resourceClaims=uses)
    document = msgspec.to_builtins(claim("c", first, on="n"))
    reserved = [{"resource": "pods", "name": each, "uid": f"uid-{each}"} for each in "bz"]
    document["status"]["reservedFor"] = reserved
    cache = cache_of(catalog, [node("n"), device_slice("n"), first, second, read(CLAIMS, document)])
    assert free(cache) == [3072, 4096]


def test_every_pod_with_an_annotation_that_requests_accelerators_is_fenced() -> None:
    for key in (keys.MODEL, keys.COUNT, keys.COMPUTE, keys.KAI_FRACTION, keys.KAI_MEMORY, keys.KAI_DEVICES):
        assert asks_for_devices(pod("a", notes={key: "1"})), key


def test_a_change_by_a_tenant_makes_only_its_own_pods_read_again(catalog: Catalog) -> None:
    mine, other = pod("mine", mib=1024), msgspec.to_builtins(pod("other", mib=1024))
    other["metadata"]["namespace"] = "elsewhere"
    cache = cache_of(catalog, [mine, read(PODS, other)])

    def changed(kind: str, before: dict[str, Any] | None, after: dict[str, Any]) -> list[str]:
        of = next(rule for rule in RULES if rule.name == kind)
        cache.on_event(ObjectChange(read(of, before) if before is not None else None, read(of, after)))
        return sorted(each.name for each in cache.sync().pending)

    named: dict[str, Any] = {
        "metadata": {"name": "t", "namespace": "default"},
        "spec": {"spec": {"devices": {}}},
    }
    labelled = {**named, "metadata": {**named["metadata"], "labels": {"x": "y"}}}
    for kind in ("ResourceClaimTemplate", "PodGroup"):
        assert changed(kind, None, named) == ["mine"]
        assert changed(kind, named, labelled) == [], "a label of a class does not affect placement"
    wide = {"metadata": {"name": "c"}, "value": 3}
    assert changed("PriorityClass", None, wide) == ["mine", "other"]
    assert changed("PriorityClass", wide, {**wide, "metadata": {"name": "c", "labels": {"x": "y"}}}) == []
