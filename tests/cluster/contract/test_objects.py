"""The contract, on objects: what every cluster of ours does with create, get, list, update and delete."""

import asyncio

import pytest

from fairlead.cluster.kinds import CONFIG_MAPS, LEASES, NODES, PODS, Kind
from fairlead.errors import (
    AlreadyExistsError,
    ClusterError,
    ConflictError,
    InvalidError,
    MissingApiError,
    NotFoundError,
    TooNewError,
)
from tests.cluster.contract.arena import Arena, Place, config_map, contract, node, pod


@contract
async def test_what_is_made_has_an_identity(place: Place) -> None:
    made = await place.cluster.create(
        CONFIG_MAPS, config_map("a", {"k": "v"}, labels={"app": "x"}), place.namespace
    )
    assert made.key == (place.namespace, "a")
    assert made.metadata.uid
    assert made.metadata.resource_version.isdecimal()
    assert made.metadata.creation_timestamp
    assert made.metadata.labels == {"app": "x"}
    assert made.data == {"k": "v"}
    assert await place.cluster.get(CONFIG_MAPS, "a", place.namespace) == made


@contract
async def test_the_namespace_may_stand_in_the_object(place: Place) -> None:
    made = await place.cluster.create(CONFIG_MAPS, config_map("a", namespace=place.namespace))
    assert made.metadata.namespace == place.namespace


@contract
async def test_what_has_a_version_cannot_be_new(place: Place) -> None:
    made = await place.cluster.create(CONFIG_MAPS, config_map("a", {"k": "v"}), place.namespace)
    await place.cluster.delete(CONFIG_MAPS, "a", place.namespace)
    with pytest.raises(ClusterError, match="resourceVersion"):
        await place.cluster.create(CONFIG_MAPS, made)


@contract
async def test_one_name_is_one_object(place: Place) -> None:
    await place.cluster.create(CONFIG_MAPS, config_map("a"), place.namespace)
    with pytest.raises(AlreadyExistsError):
        await place.cluster.create(CONFIG_MAPS, config_map("a"), place.namespace)


@contract
async def test_a_prefix_is_made_into_names(place: Place) -> None:
    bodies = [{"metadata": {"generateName": "job-"}} for _ in range(2)]
    one, two = [await place.cluster.create(CONFIG_MAPS, body, place.namespace) for body in bodies]
    assert one.metadata.name.startswith("job-")
    assert one.metadata.name != two.metadata.name


@contract
async def test_names_are_checked(place: Place) -> None:
    for name in ("No Capitals", "-a", "a_b"):
        with pytest.raises(InvalidError):
            await place.cluster.create(CONFIG_MAPS, config_map(name), place.namespace)
    with pytest.raises(InvalidError):
        await place.cluster.create(CONFIG_MAPS, {"metadata": {}}, place.namespace)


@contract
async def test_nothing_is_made_in_a_namespace_that_is_not_there(place: Place) -> None:
    with pytest.raises(NotFoundError):
        await place.cluster.create(CONFIG_MAPS, config_map("a"), place.name("nowhere"))


@contract
async def test_what_is_not_there_is_not_found(place: Place) -> None:
    cluster, namespace = place.cluster, place.namespace
    for call in (
        cluster.get(CONFIG_MAPS, "a", namespace),
        cluster.update(CONFIG_MAPS, config_map("a"), namespace),
        cluster.patch(CONFIG_MAPS, "a", {"data": {}}, namespace),
        cluster.delete(CONFIG_MAPS, "a", namespace),
        cluster.bind(namespace, "a", "", "n"),
    ):
        with pytest.raises(NotFoundError):
            await call


@contract
async def test_a_kind_that_is_not_served_says_so(place: Place) -> None:
    rockets = Kind.of("space.example", "v1", "rockets", namespaced=True, name="Rocket")
    for call in (
        place.cluster.get(rockets, "a", place.namespace),
        place.cluster.list(rockets),
        place.cluster.create(rockets, config_map("a"), place.namespace),
    ):
        with pytest.raises(MissingApiError):
            await call


@contract
async def test_lists_are_sorted_and_of_one_moment(place: Place) -> None:
    for name in ("b", "a", "c"):
        last = await place.cluster.create(CONFIG_MAPS, config_map(name), place.namespace)
    for limit in (500, 2, 0):
        listing = await place.cluster.list(CONFIG_MAPS, place.namespace, limit=limit)
        names = [item.metadata.name for item in listing.items if item.metadata.name in "abc"]
        assert names == ["a", "b", "c"]
        assert int(listing.resource_version) >= int(last.metadata.resource_version)


@contract
async def test_lists_without_a_namespace_are_of_all(place: Place) -> None:
    await place.cluster.create(CONFIG_MAPS, config_map("a"), place.namespace)
    await place.cluster.create(CONFIG_MAPS, config_map(place.name("a")), "default")
    keys = {item.key for item in (await place.cluster.list(CONFIG_MAPS)).items}
    assert {(place.namespace, "a"), ("default", place.name("a"))} <= keys
    await place.cluster.delete(CONFIG_MAPS, place.name("a"), "default")


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("app=web", {"a", "b"}),
        ("app==web,tier!=back", {"a"}),
        ("app!=web", {"c", "d"}),
        ("app in (web, db)", {"a", "b", "c"}),
        ("app notin (web)", {"c", "d"}),
        ("tier", {"a", "b"}),
        ("!app", {"d"}),
    ],
)
def test_labels_select(labels: str, expected: set[str], arena: Arena) -> None:
    async def scenario(place: Place) -> None:
        marks = {
            "a": {"app": "web", "tier": "front"},
            "b": {"app": "web", "tier": "back"},
            "c": {"app": "db"},
            "d": {},
        }
        for name, mark in marks.items():
            await place.cluster.create(CONFIG_MAPS, config_map(name, labels=mark), place.namespace)
        listing = await place.cluster.list(CONFIG_MAPS, place.namespace, labels=labels)
        assert {item.metadata.name for item in listing.items} & set(marks) == expected

    contract(scenario)(arena)


@contract
async def test_fields_select(place: Place) -> None:
    for name in ("a", "b"):
        made = await place.cluster.create(PODS, pod(name), place.namespace)
    await place.cluster.bind(place.namespace, "b", made.metadata.uid, place.name("n"))
    for fields, expected in {
        "spec.nodeName=": ["a"],
        f"spec.nodeName={place.name('n')}": ["b"],
        "spec.nodeName!=": ["b"],
        "metadata.name=a": ["a"],
        "status.phase=Pending,spec.schedulerName=nobody": ["a", "b"],
    }.items():
        listing = await place.cluster.list(PODS, place.namespace, fields=fields)
        assert [item.metadata.name for item in listing.items] == expected, fields


@contract
async def test_fields_that_cannot_select_are_refused(place: Place) -> None:
    with pytest.raises(InvalidError):
        await place.cluster.list(PODS, place.namespace, fields="spec.hostname=a")


@contract
async def test_a_list_from_the_future_is_too_new(place: Place) -> None:
    now = (await place.cluster.list(CONFIG_MAPS, place.namespace)).resource_version
    with pytest.raises(TooNewError):
        await place.cluster.list(CONFIG_MAPS, place.namespace, resource_version=str(int(now) + 100_000))


@contract
async def test_an_update_replaces_all_and_moves_the_version(place: Place) -> None:
    made = await place.cluster.create(CONFIG_MAPS, config_map("a", {"k": "v", "l": "w"}), place.namespace)
    new = await place.cluster.update(CONFIG_MAPS, config_map("a", {"k": "x"}), place.namespace)
    assert new.data == {"k": "x"}
    assert new.metadata.uid == made.metadata.uid
    assert new.metadata.creation_timestamp == made.metadata.creation_timestamp
    assert int(new.metadata.resource_version) > int(made.metadata.resource_version)


@contract
async def test_an_update_that_changes_nothing_is_no_write(place: Place) -> None:
    made = await place.cluster.create(CONFIG_MAPS, config_map("a", {"k": "v"}), place.namespace)
    again = await place.cluster.update(CONFIG_MAPS, made)
    assert again.metadata.resource_version == made.metadata.resource_version


@contract
async def test_of_two_who_update_the_same_version_one_loses(place: Place) -> None:
    made = await place.cluster.create(CONFIG_MAPS, config_map("a", {"k": "v"}), place.namespace)
    version = {"namespace": place.namespace, "resourceVersion": made.metadata.resource_version}
    results = await asyncio.gather(
        *(place.cluster.update(CONFIG_MAPS, config_map("a", {"k": str(n)}, **version)) for n in range(5)),
        return_exceptions=True,
    )
    lost = [result for result in results if isinstance(result, ConflictError)]
    assert len(lost) == 4
    left = await place.cluster.get(CONFIG_MAPS, "a", place.namespace)
    assert left in results


@contract
async def test_an_update_meant_for_another_of_the_same_name_is_a_conflict(place: Place) -> None:
    made = await place.cluster.create(CONFIG_MAPS, config_map("a"), place.namespace)
    await place.cluster.delete(CONFIG_MAPS, "a", place.namespace)
    await place.cluster.create(CONFIG_MAPS, config_map("a"), place.namespace)
    with pytest.raises(ConflictError):
        await place.cluster.update(
            CONFIG_MAPS, config_map("a", {"k": "v"}, uid=made.metadata.uid), place.namespace
        )


@contract
async def test_a_lease_is_only_replaced_by_who_knows_its_version(place: Place) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}}
    made = await place.cluster.create(LEASES, body, place.namespace)
    assert made.spec.holder_identity == "me"
    with pytest.raises(InvalidError):
        await place.cluster.update(LEASES, body, place.namespace)
    taken = {
        "metadata": {"name": "a", "resourceVersion": made.metadata.resource_version},
        "spec": {"holderIdentity": "you"},
    }
    assert (await place.cluster.update(LEASES, taken, place.namespace)).spec.holder_identity == "you"
    with pytest.raises(ConflictError):
        await place.cluster.update(LEASES, taken, place.namespace)


@contract
async def test_what_is_read_in_part_cannot_be_written_whole(place: Place) -> None:
    made = await place.cluster.create(PODS, pod("a"), place.namespace)
    with pytest.raises(TypeError):
        await place.cluster.update(PODS, made)


@contract
async def test_a_kind_read_raw_is_written_whole(place: Place) -> None:
    await place.cluster.create(PODS, pod("a"), place.namespace)
    whole = (await place.cluster.get(PODS.raw(), "a", place.namespace)).document()
    whole["metadata"]["annotations"] = {"note": "x"}
    new = await place.cluster.update(PODS.raw(), whole)
    assert new.metadata.annotations == {"note": "x"}
    assert new.document()["spec"]["containers"][0]["name"] == "main"


@contract
async def test_a_new_pod_waits_for_the_usual_scheduler(place: Place) -> None:
    body = pod("a")
    del body["spec"]["schedulerName"]
    made = await place.cluster.create(PODS, body, place.namespace)
    assert made.spec.scheduler_name == "default-scheduler"
    assert made.spec.node_name == ""
    assert made.status.phase == "Pending"
    assert made.metadata.generation == 1


@contract
async def test_objects_of_the_whole_cluster_have_no_namespace(place: Place) -> None:
    made = await place.cluster.create(NODES, node(place, "n"))
    assert made.key == ("", place.name("n"))
    assert (await place.cluster.get(NODES, place.name("n"))).key == made.key
    await place.cluster.delete(NODES, place.name("n"))


@contract
async def test_without_a_namespace_nothing_of_one_is_asked(place: Place) -> None:
    for call in (
        place.cluster.get(PODS, "a"),
        place.cluster.create(PODS, pod("a")),
        place.cluster.delete(PODS, "a"),
    ):
        with pytest.raises(ValueError, match="namespaces"):
            await call


@contract
async def test_what_is_deleted_is_gone(place: Place) -> None:
    await place.cluster.create(CONFIG_MAPS, config_map("a"), place.namespace)
    await place.cluster.delete(CONFIG_MAPS, "a", place.namespace)
    with pytest.raises(NotFoundError):
        await place.cluster.get(CONFIG_MAPS, "a", place.namespace)


@contract
async def test_only_the_one_that_was_meant_is_deleted(place: Place) -> None:
    made = await place.cluster.create(CONFIG_MAPS, config_map("a"), place.namespace)
    newer = await place.cluster.patch(CONFIG_MAPS, "a", {"data": {"k": "v"}}, place.namespace)
    with pytest.raises(ConflictError):
        await place.cluster.delete(
            CONFIG_MAPS, "a", place.namespace, resource_version=made.metadata.resource_version
        )
    with pytest.raises(ConflictError):
        await place.cluster.delete(CONFIG_MAPS, "a", place.namespace, uid="another")
    await place.cluster.delete(
        CONFIG_MAPS,
        "a",
        place.namespace,
        uid=made.metadata.uid,
        resource_version=newer.metadata.resource_version,
    )


@contract
async def test_a_finalizer_keeps_what_is_deleted_until_it_lets_go(place: Place) -> None:
    body = config_map("a", finalizers=["example.com/hold"])
    made = await place.cluster.create(CONFIG_MAPS, body, place.namespace)
    await place.cluster.delete(CONFIG_MAPS, "a", place.namespace)
    held = await place.cluster.get(CONFIG_MAPS, "a", place.namespace)
    assert held.metadata.deletion_timestamp
    assert held.metadata.uid == made.metadata.uid
    await place.cluster.delete(CONFIG_MAPS, "a", place.namespace)  # again: nothing new
    assert await place.cluster.get(CONFIG_MAPS, "a", place.namespace) == held
    more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    with pytest.raises(InvalidError):
        await place.cluster.patch(CONFIG_MAPS, "a", more, place.namespace)
    await place.cluster.patch(CONFIG_MAPS, "a", {"metadata": {"finalizers": None}}, place.namespace)
    with pytest.raises(NotFoundError):
        await place.cluster.get(CONFIG_MAPS, "a", place.namespace)
