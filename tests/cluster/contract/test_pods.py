"""The contract, on pods and nodes: binding, grace periods, mutable fields of a pod, and status."""

import asyncio

import pytest

from fairlead.cluster.kinds import CONFIG_MAPS, NODES, PODS
from fairlead.errors import ConflictError, InvalidError, MissingApiError, NotFoundError
from tests.cluster.contract.arena import Place, config_map, contract, node, pod


@contract
async def test_a_pod_is_bound_once(place: Place) -> None:
    made = await place.cluster.create(PODS, pod("a"), place.namespace)
    await place.cluster.bind(place.namespace, "a", made.metadata.uid, "n1")
    bound = await place.cluster.get(PODS, "a", place.namespace)
    assert bound.spec.node_name == "n1"
    assert {(item.type, item.status) for item in bound.status.conditions} == {("PodScheduled", "True")}
    assert bound.metadata.generation == made.metadata.generation
    for other in ("n1", "n2"):
        with pytest.raises(ConflictError):
            await place.cluster.bind(place.namespace, "a", made.metadata.uid, other)
    assert (await place.cluster.get(PODS, "a", place.namespace)).spec.node_name == "n1"


@contract
async def test_one_of_several_concurrent_bindings_wins(place: Place) -> None:
    made = await place.cluster.create(PODS, pod("a"), place.namespace)
    calls = [place.cluster.bind(place.namespace, "a", made.metadata.uid, f"n{n}") for n in range(5)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(result is None for result in results) == 1
    assert sum(isinstance(result, ConflictError) for result in results) == 4
    won = results.index(None)
    assert (await place.cluster.get(PODS, "a", place.namespace)).spec.node_name == f"n{won}"


@contract
async def test_a_replaced_pod_is_not_bound_by_the_old_uid(place: Place) -> None:
    old = await place.cluster.create(PODS, pod("a"), place.namespace)
    await place.cluster.delete(PODS, "a", place.namespace)
    await place.cluster.create(PODS, pod("a"), place.namespace)
    with pytest.raises(ConflictError):
        await place.cluster.bind(place.namespace, "a", old.metadata.uid, "n1")
    await place.cluster.bind(place.namespace, "a", "", "n1")  # an empty uid matches any pod of that name


@contract
async def test_a_gated_pod_is_not_bound(place: Place) -> None:
    body = pod("a")
    body["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    made = await place.cluster.create(PODS, body, place.namespace)
    with pytest.raises(ConflictError):
        await place.cluster.bind(place.namespace, "a", made.metadata.uid, "n1")
    await place.cluster.patch(PODS, "a", {"spec": {"schedulingGates": []}}, place.namespace)
    await place.cluster.bind(place.namespace, "a", made.metadata.uid, "n1")


@contract
async def test_only_a_bound_pod_has_a_grace_period(place: Place) -> None:
    for name in ("a", "b"):
        made = await place.cluster.create(PODS, pod(name), place.namespace)
    await place.cluster.bind(place.namespace, "b", made.metadata.uid, "n1")
    for name in ("a", "b"):
        await place.cluster.delete(PODS, name, place.namespace)
    with pytest.raises(NotFoundError):
        await place.cluster.get(PODS, "a", place.namespace)
    leaving = await place.cluster.get(PODS, "b", place.namespace)
    assert leaving.metadata.deletion_timestamp > leaving.metadata.creation_timestamp
    with pytest.raises(ConflictError):
        await place.cluster.bind(place.namespace, "b", "", "n2")
    await place.cluster.delete(PODS, "b", place.namespace, grace=0)
    with pytest.raises(NotFoundError):
        await place.cluster.get(PODS, "b", place.namespace)


@contract
async def test_an_ended_pod_is_deleted_at_once(place: Place) -> None:
    await place.cluster.create(PODS, pod("a"), place.namespace)
    await place.cluster.bind(place.namespace, "a", "", "n1")
    await place.cluster.patch_status(PODS, "a", {"status": {"phase": "Succeeded"}}, place.namespace)
    await place.cluster.delete(PODS, "a", place.namespace)
    with pytest.raises(NotFoundError):
        await place.cluster.get(PODS, "a", place.namespace)


@contract
async def test_most_of_a_pods_spec_is_immutable(place: Place) -> None:
    await place.cluster.create(PODS, pod("a"), place.namespace)
    for spec in ({"nodeName": "n1"}, {"schedulerName": "fairlead"}, {"nodeSelector": {"a": "b"}}):
        with pytest.raises(InvalidError):
            await place.cluster.patch(PODS, "a", {"spec": spec}, place.namespace)
    image = {"spec": {"containers": [{"name": "main", "image": "other"}]}}
    new = await place.cluster.patch(PODS, "a", image, place.namespace, patch_type="strategic")
    assert new.spec.containers[0].image == "other"
    assert new.metadata.generation == 2


@contract
async def test_status_is_a_subresource(place: Place) -> None:
    cluster, namespace = place.cluster, place.namespace
    await cluster.create(PODS, pod("a"), namespace)
    both = {"metadata": {"labels": {"k": "v"}}, "status": {"phase": "Running"}}
    assert (await cluster.patch(PODS, "a", both, namespace)).status.phase == "Pending"
    new = await cluster.patch_status(PODS, "a", {"status": {"phase": "Running"}}, namespace)
    assert new.status.phase == "Running"
    assert new.metadata.labels == {"k": "v"}
    assert new.metadata.generation == 1


@contract
async def test_conditions_are_merged_by_their_type(place: Place) -> None:
    cluster, namespace = place.cluster, place.namespace
    await cluster.create(PODS, pod("a"), namespace)
    for name, status in (("Ready", "False"), ("Other", "True"), ("Ready", "True")):
        change = {"status": {"conditions": [{"type": name, "status": status}]}}
        new = await cluster.patch_status(PODS, "a", change, namespace, patch_type="strategic")
    assert {item.type: item.status for item in new.status.conditions} == {"Ready": "True", "Other": "True"}


@contract
async def test_a_kind_without_status_refuses_a_status_patch(place: Place) -> None:
    await place.cluster.create(CONFIG_MAPS, config_map("a"), place.namespace)
    with pytest.raises(MissingApiError):
        await place.cluster.patch_status(CONFIG_MAPS, "a", {"status": {}}, place.namespace)


@contract
async def test_the_capacity_of_a_node_is_part_of_its_status(place: Place) -> None:
    cluster, name = place.cluster, place.name("n")
    capacity = {"cpu": "4", "fairlead.dev/gpu-mem": "4096"}
    made = await cluster.create(NODES, {**node(place, "n"), "status": {"capacity": capacity}})
    assert made.status.capacity == capacity
    more = {"status": {"capacity": {"fairlead.dev/gpu-mem": "8192"}}}
    assert (await cluster.patch(NODES, name, more)).status.capacity == capacity
    new = await cluster.patch_status(NODES, name, more)
    assert new.status.capacity == {"cpu": "4", "fairlead.dev/gpu-mem": "8192"}
    taint = {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}], "unschedulable": True}}
    assert (await cluster.patch(NODES, name, taint)).spec.taints[0].key == "k"
    listing = await cluster.list(NODES, fields="spec.unschedulable=true")
    assert name in {item.metadata.name for item in listing.items}
    await cluster.delete(NODES, name)
