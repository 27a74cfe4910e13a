"""Pods are placed where their volumes are; a late claim gets its volume on the pod's node."""

import asyncio
from typing import Any

import msgspec
import pytest

from fairlead.cache.types import SCHEDULED, LivePod
from fairlead.cache.volumes import VolumeBinding
from fairlead.catalog import Catalog
from fairlead.cluster.kinds import EVENTS
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.manifest.pod.request import read_request
from fairlead.manifest.types.storage import (
    NO_PROVISIONER,
    SELECTED_NODE,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    WAIT_FOR_FIRST_CONSUMER,
)
from fairlead.serve.scheduler.bind import writes
from fairlead.serve.scheduler.cycle.scheduling import CycleResult, SchedulingCycle
from fairlead.serve.scheduler.events import Explain
from fairlead.serve.scheduler.report.explain import Explainer
from tests.labs import RealCluster
from tests.serve.scheduler.cycle.test_cycle import cycle_of, run_all
from tests.serve.scheduler.objects import device_slice, node, pod, read
from tests.serve.scheduler.test_real import run_script
from tests.serve.scheduler.world import World, bound
from tests.work import calls

HOST = "kubernetes.io/hostname"


def claim(
    name: str, volume: str = "", kind: str | None = "late", node: str = "", phase: str = "", size: int = 1
) -> Any:
    notes = {SELECTED_NODE: node} if node else {}
    document = {
        "metadata": {"name": name, "namespace": "default", "uid": f"c-{name}", "annotations": notes},
        "spec": {
            "volumeName": volume,
            "storageClassName": kind,
            "resources": {"requests": {"storage": f"{size}Gi"}},
        },
        "status": {"phase": phase or ("Bound" if volume else "Pending")},
    }
    return read(VOLUME_CLAIMS, document)


def affinity(*nodes: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [name]}]} for name in nodes]
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if nodes else {}


def volume(name: str, *nodes: str) -> Any:
    return read(VOLUMES, {"metadata": {"name": name, "uid": f"v-{name}"}, "spec": affinity(*nodes)})


def free(name: str, size: int, *nodes: str, kind: str = "late", phase: str = "Available", **more: str) -> Any:
    spec = {"capacity": {"storage": f"{size}Gi"}, "storageClassName": kind, **more, **affinity(*nodes)}
    meta = {"name": name, "uid": f"v-{name}", "resourceVersion": "7"}
    return read(VOLUMES, {"metadata": meta, "spec": spec, "status": {"phase": phase}})


def reserved(volume: Any, wanting: Any) -> Any:
    ref = {"namespace": "default", "name": wanting.metadata.name, "uid": wanting.metadata.uid}
    document = msgspec.to_builtins(volume)
    return read(VOLUMES, {**document, "spec": {**document["spec"], "claimRef": ref}})


def storage(
    name: str, *zones: str, mode: str = WAIT_FOR_FIRST_CONSUMER, usual: bool = False, made_by: str = "x"
) -> Any:
    notes = {"storageclass.kubernetes.io/is-default-class": "true"} if usual else {}
    topology = [{"matchLabelExpressions": [{"key": "zone", "values": list(zones)}]}] if zones else []
    document = {
        "metadata": {"name": name, "uid": f"s-{name}", "annotations": notes},
        "provisioner": made_by,
        "volumeBindingMode": mode,
        "allowedTopologies": topology,
    }
    return read(STORAGE_CLASSES, document)


def using(name: str, *claims: str, **spec: Any) -> LivePod:
    volumes = [
        {"name": f"v{at}", "persistentVolumeClaim": {"claimName": each}} for at, each in enumerate(claims)
    ]
    return pod(name, volumes=[{"name": "token-x7k2p", "projected": {}}, *volumes], **spec)


def two_nodes(catalog: Catalog, *objects: Any) -> SchedulingCycle:
    nodes = [node("n1", zone="a"), node("n2", zone="b")]
    return cycle_of(catalog, *nodes, device_slice("n1"), device_slice("n2"), *objects)


def places(result: CycleResult) -> dict[str, str]:
    """Return the nodes of the pods that are to be bound."""
    return {plan.pod.metadata.name: plan.placement.node for plan in result.plans}


def all_of(cycle: SchedulingCycle) -> dict[str, str]:
    """Decide for every active pod; return the nodes of those that are placed."""
    return places(run_all(cycle))


def test_a_pod_is_placed_where_its_volumes_can_be_reached(catalog: Catalog) -> None:
    volumes = [volume("v1", "n1"), volume("v2", "n2"), volume("both", "n1", "n2"), volume("any")]
    claims = [claim(name, name) for name in ("v1", "v2", "both", "any")]
    pods = [using("a", "v1"), using("b", "v2", "both"), using("c", "both", "any"), using("d", "v1", "v2")]
    cycle = two_nodes(catalog, *volumes, *claims, *pods)
    nodes = all_of(cycle)
    assert (nodes["a"], nodes["b"]) == ("n1", "n2")
    assert "c" in nodes
    assert "d" not in nodes
    assert "do not match the node affinity" in cycle.reporter.text("uid-d")


@pytest.mark.parametrize(
    ("there", "says"),
    [
        ([], "spec.volumes[1]: no PersistentVolumeClaim default/data"),
        ([claim("data", kind="now"), storage("now", mode="Immediate")], "has no volume yet"),
        ([claim("data", kind=None)], "has no volume yet"),
        ([claim("data", kind="")], "has no volume yet"),
        ([claim("data", "gone")], "has no volume yet"),
        ([claim("data", phase="Lost")], "has lost its volume"),
    ],
)
def test_an_unavailable_volume_is_reported(catalog: Catalog, there: list[Any], says: str) -> None:
    cycle = two_nodes(catalog, *there, using("a", "data"), pod("other"))
    assert list(all_of(cycle)) == ["other"]
    assert says in cycle.reporter.text("uid-a")
    for each in there:
        cycle.cache.on_event(ObjectChange(each, None))
    for each in (volume("v", "n2"), claim("data", "v")):
        cycle.cache.on_event(ObjectChange(None, each))
    cycle.refresh(1.0)
    assert all_of(cycle) == {"a": "n2"}


def test_a_volume_is_provisioned_on_the_pods_node_and_its_place_is_reserved(catalog: Catalog) -> None:
    unmade = claim("data", kind=None)
    wanted = using("a", "data", mib=4096)
    cycle = two_nodes(catalog, storage("late", "b", usual=True), unmade, wanted)
    result = run_all(cycle)
    assert result.plans == ()
    ((uid, binding),) = result.volumes
    assert (uid, binding) == ("uid-a", VolumeBinding(unmade, "n2")), "the class allows no other zone"
    write = writes.bind_volume(binding)
    assert write.path == "/api/v1/namespaces/default/persistentvolumeclaims/data"
    assert write.body == {"metadata": {"annotations": {SELECTED_NODE: "n2"}}}
    assert cycle.reporter.text(uid) == "a has its place on n2 and waits for its volumes: data"
    answer = Explainer(cycle, "me", "fairlead").answer(Explain("default", "a", "uid-a"), 0.0)
    assert (answer["state"], answer["sentence"]) == ("waiting-for-volumes", cycle.reporter.text(uid))

    for name in ("b", "c", "d", "e"):  # four GPUs, one of which is kept
        cycle.cache.on_event(ObjectChange(None, pod(name, mib=4096)))
    chosen = claim("data", kind=None, node="n2")
    cycle.cache.on_event(ObjectChange(unmade, chosen))
    cycle.refresh(1.0)
    result = run_all(cycle)
    assert len(result.plans) == 3
    assert result.volumes == (), "the selected node is written already"
    assert list(cycle.cache.waiting_for_volumes) == ["uid-a"]

    cycle.cache.on_event(ObjectChange(None, volume("v", "n2")))
    cycle.cache.on_event(ObjectChange(chosen, claim("data", "v", kind=None, node="n2")))
    cycle.refresh(2.0)
    assert all_of(cycle) == {"a": "n2"}
    assert cycle.cache.waiting_for_volumes == {}


def test_an_existing_volume_is_reserved_for_the_claim(catalog: Catalog) -> None:
    """Classes of local volumes have no provisioner: the claim gets the smallest fitting volume."""
    small, large, fitting = (free(name, size, "n2") for name, size in (("s", 1), ("l", 9), ("f", 4)))
    other, unmade, second = free("o", 4, "n2", kind="another"), claim("data", size=2), claim("more", size=2)
    local = storage("late", made_by=NO_PROVISIONER)
    there = (small, other, large, fitting)
    cycle = two_nodes(catalog, local, unmade, second, *there, using("a", "data", "more", mib=1024))
    result = run_all(cycle)
    assert result.plans == ()
    bindings = [binding for _, binding in result.volumes]
    assert [(each.claim, each.volume) for each in bindings] == [(unmade, fitting), (second, large)]
    write = writes.bind_volume(bindings[0])
    assert write.path == "/api/v1/persistentvolumes/f"
    whose = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default"}
    assert write.body["spec"] == {"claimRef": {**whose, "name": "data", "uid": "c-data"}}

    for each, wanting in ((fitting, unmade), (large, second)):
        cycle.cache.on_event(ObjectChange(each, reserved(each, wanting)))
    cycle.refresh(1.0)
    result = run_all(cycle)
    assert (result.plans, result.volumes) == ((), ()), "both are reserved for it already"
    for wanting, name in ((unmade, "f"), (second, "l")):
        cycle.cache.on_event(ObjectChange(wanting, claim(wanting.metadata.name, name)))
    cycle.refresh(2.0)
    assert all_of(cycle) == {"a": "n2"}


WRONG: list[dict[str, Any]] = [
    {"size": 1},
    {"kind": "another"},
    {"phase": "Released"},
    {"volumeMode": "Block"},
]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_pod_gets_a_reason_where_no_volume_is_free(catalog: Catalog, wrong: dict[str, Any]) -> None:
    local = storage("late", made_by=NO_PROVISIONER)
    there = free("v", **{"size": 4, **wrong})
    cycle = two_nodes(catalog, local, claim("data", size=2), there, using("a", "data"))
    assert all_of(cycle) == {}
    assert "no free volume of class late" in cycle.reporter.text("uid-a")
    cycle.cache.on_event(ObjectChange(None, free("w", 4, "n1")))
    cycle.refresh(1.0)
    result = run_all(cycle)
    assert result.plans == ()
    assert [binding.node for _, binding in result.volumes] == ["n1"]


def test_a_size_too_large_to_parse_affects_no_other_pod(catalog: Catalog) -> None:
    document = msgspec.to_builtins(claim("data", node="n1"))
    document["spec"]["resources"] = {"requests": {"storage": "1e300"}}
    odd = read(VOLUME_CLAIMS, document)
    local = storage("late", made_by=NO_PROVISIONER)
    cycle = two_nodes(catalog, local, odd, free("v", 4, "n1"), using("a", "data"), pod("other"))
    result = run_all(cycle)
    assert list(places(result)) == ["other"]
    assert result.volumes == ()


def test_another_node_is_chosen_where_no_volume_could_be_provisioned(catalog: Catalog) -> None:
    unmade, chosen = claim("data"), claim("data", node="n1")
    cycle = two_nodes(catalog, storage("late"), chosen, using("a", "data", mib=4096))
    result = run_all(cycle)
    assert (result.plans, result.volumes) == ((), ())
    assert cycle.reporter.text("uid-a").startswith("a has its place on n1")
    cycle.cache.on_event(ObjectChange(node("n1", zone="a"), None))
    cycle.cache.on_event(ObjectChange(chosen, unmade))
    cycle.refresh(1.0)
    result = run_all(cycle)
    assert result.plans == ()
    assert [binding.node for _, binding in result.volumes] == ["n2"]


def test_a_gang_waits_together_for_the_volumes_of_one(catalog: Catalog) -> None:
    ring = {"fairlead.dev/gang": "ring", "fairlead.dev/gang-size": "2"}
    unmade = claim("data")
    members = [using("a", "data", mib=4096, notes=ring), pod("b", mib=4096, notes=ring)]
    cycle = two_nodes(catalog, storage("late"), unmade, *members)
    result = run_all(cycle)
    assert result.plans == ()
    ((_, binding),) = result.volumes
    assert set(cycle.cache.waiting_for_volumes) == {"uid-a", "uid-b"}
    cycle.cache.on_event(ObjectChange(None, volume("v", binding.node)))
    cycle.cache.on_event(ObjectChange(unmade, claim("data", "v")))
    cycle.refresh(1.0)
    assert set(all_of(cycle)) == {"a", "b"}


def test_a_higher_priority_pod_takes_a_reserved_place(catalog: Catalog) -> None:
    cycle = cycle_of(catalog, node("n"), device_slice("n", devices=1), storage("late"), claim("data"))
    results = []
    for each in (using("a", "data", mib=4096), pod("vip", mib=4096, priority=9)):
        cycle.cache.on_event(ObjectChange(None, each))
        cycle.refresh(0.0)
        results.append(cycle.run(0.0))
    assert [result.plans for result in results] == [(), ()]
    preemptions = [preemption for result in results for preemption in result.preemptions]
    assert [preemption.victims for preemption in preemptions] == [()], "no pod runs there yet"
    assert cycle.cache.waiting_for_volumes == {}
    cycle.refresh(1.0)
    assert all_of(cycle) == {"vip": "n"}
    assert cycle.cache.waits("uid-a")


def test_another_pod_gets_a_place_that_was_reserved_for_volumes_for_too_long(catalog: Catalog) -> None:
    cycle = cycle_of(catalog, node("n"), device_slice("n", devices=1), storage("late"), claim("data"))
    for each in (using("a", "data", mib=4096), pod("b", mib=4096)):
        cycle.cache.on_event(ObjectChange(None, each))
        cycle.refresh(0.0)
        assert cycle.run(0.0).plans == ()
    cycle.refresh(599.0)
    assert all_of(cycle) == {}
    cycle.refresh(600.0)
    assert all_of(cycle) == {"b": "n"}
    assert cycle.cache.waits("uid-a")


@pytest.mark.parametrize("end", ["gone", "ended"])
def test_a_pod_that_ends_while_it_waits_for_volumes_leaves_nothing(catalog: Catalog, end: str) -> None:
    ring = {"fairlead.dev/gang": "ring", "fairlead.dev/gang-size": "2"}
    member = using("a", "data", mib=4096, notes=ring)
    cycle = two_nodes(catalog, storage("late"), claim("data"), member, pod("b", mib=4096, notes=ring))
    assert all_of(cycle) == {}
    over = using("a", "data", mib=4096, notes=ring, phase="Failed") if end == "ended" else None
    cycle.cache.on_event(ObjectChange(member, over))
    cycle.refresh(1.0)
    assert (cycle.cache.waiting_for_volumes, cycle.cache.cluster.placements()) == ({}, ())
    assert "uid-a" not in cycle.last_decisions
    assert [each.id for each in cycle.queue.group_of("uid-b").members.values()] == ["uid-b"]  # type: ignore[union-attr]


def test_an_ephemeral_claim_is_found_by_its_name(catalog: Catalog) -> None:
    scratch = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]
    cycle = two_nodes(catalog, pod("a", volumes=scratch))
    assert all_of(cycle) == {}
    assert "no PersistentVolumeClaim default/a-scratch" in cycle.reporter.text("uid-a")
    for each in (volume("v", "n1"), claim("a-scratch", "v")):
        cycle.cache.on_event(ObjectChange(None, each))
    cycle.refresh(1.0)
    assert all_of(cycle) == {"a": "n1"}


def test_pods_that_differ_only_in_their_token_are_read_once(catalog: Catalog) -> None:
    pods = [pod(f"p{at}", volumes=[{"name": f"kube-api-access-{at}", "projected": {}}]) for at in range(9)]
    placed: list[dict[str, str]] = []
    assert calls(read_request, lambda: placed.append(all_of(two_nodes(catalog, *pods)))) == 1
    assert len(placed[0]) == 9


async def provide(world: World, name: str) -> str:
    """Do what a provisioner and the volume controller do, once a node is selected; return the node."""
    claims = VOLUME_CLAIMS
    async with asyncio.timeout(300):
        while not (where := (await world.client.get(claims, name, world.namespace)).node):
            await asyncio.sleep(0.05)
    await world.until(
        lambda pods: any("waits for its volumes" in each.condition(SCHEDULED).message for each in pods)
    )
    body = {
        "metadata": {"name": f"{world.namespace}-{name}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/tmp/x"},
            "storageClassName": world.namespace,
            **affinity(where),
        },
    }
    await world.client.create(VOLUMES.raw(), body)
    await world.client.patch(
        claims, name, {"spec": {"volumeName": body["metadata"]["name"]}}, world.namespace
    )
    await world.client.patch_status(claims, name, {"status": {"phase": "Bound"}}, world.namespace)
    return where


def test_on_a_real_server_the_pod_is_bound_when_its_volume_is_bound(
    real_cluster: RealCluster, catalog: Catalog
) -> None:
    async def script(world: World) -> None:
        client, name = world.client, world.namespace
        kind = {
            "metadata": {"name": name},
            "provisioner": "example.org/x",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await client.create(STORAGE_CLASSES.raw(), kind)
        wish = {
            "metadata": {"name": "data"},
            "spec": {
                "storageClassName": name,
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        try:
            await client.create(VOLUME_CLAIMS.raw(), wish, name)
            volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
            await world.pod("user", mib=1024, volumes=volumes)
            where = await provide(world, "data")
            (placed,) = await world.until(bound())
            assert placed.spec.node_name == where
            events = (await client.list(EVENTS, name)).items
            assert {event.reason for event in events} >= {"WaitingForVolumes"}
        finally:
            await client.delete(STORAGE_CLASSES, name)
            await client.delete_collection(VOLUMES, fields=f"metadata.name={name}-data")

    run_script(real_cluster, catalog, script)
