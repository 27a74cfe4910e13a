"""The contract, on objects: create, get, list, update and delete on the fake and on a real cluster."""

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
async def test_a_created_object_has_an_identity(place: Place) -> None:
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
async def test_the_metadata_may_name_the_namespace(place: Place) -> None:
    made = await place.cluster.create(CONFIG_MAPS, config_map("a", namespace=place.namespace))
    assert made.metadata.namespace == place.namespace


@contract
async def test_an_object_with_a_version_cannot_be_created(place: Place) -> None:
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
async def test_a_generate_name_becomes_unique_names(place: Place) -> None:
    bodies = [{"metadata": {"generateName": "job-"}} for _ in range(2)]
    one, two = [await place.cluster.create(CONFIG_MAPS, body, place.namespace) for body in bodies]
    assert one.metadata.name.startswith("job-")
    assert one.metadata.name != two.metadata.name


@contract
async def test_names_are_validated(place: Place) -> None:
    for name in ("No Capitals", "-a", "a_b"):
        with pytest.raises(InvalidError):
            await place.cluster.create(CONFIG_MAPS, config_map(name), place.namespace)
    with pytest.raises(InvalidError):
        await place.cluster.create(CONFIG_MAPS, {"metadata": {}}, place.namespace)


@contract
async def test_an_object_cannot_be_created_in_a_missing_namespace(place: Place) -> None:
    with pytest.raises(NotFoundError):
        await place.cluster.create(CONFIG_MAPS, config_map("a"), place.name("nowhere"))


@contract
async def test_a_missing_object_is_not_found(place: Place) -> None:
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
async def test_an_unserved_kind_is_a_missing_api(place: Place) -> None:
    rockets = Kind.of("space.example", "v1", "rockets", namespaced=True, name="Rocket")
    for call in (
        place.cluster.get(rockets, "a", place.namespace),
        place.cluster.list(rockets),
        place.cluster.create(rockets, config_map("a"), place.namespace),
    ):
        with pytest.raises(MissingApiError):
            await call


@contract
async def test_lists_are_sorted_and_of_one_version(place: Place) -> None:
    for name in ("b", "a", "c"):
        last = await place.cluster.create(CONFIG_MAPS, config_map(name), place.namespace)
    for limit in (500, 2, 0):
        listing = await place.cluster.list(CONFIG_MAPS, place.namespace, limit=limit)
        names = [item.metadata.name for item in listing.items if item.metadata.name in "abc"]
        assert names == ["a", "b", "c"]
        assert int(listing.resource_version) >= int(last.metadata.resource_version)


@contract
async def test_lists_without_a_namespace_cover_all(place: Place) -> None:
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
        "status.phase=Pending,spec.schedulerName=none": ["a", "b"],
    }.items():
        listing = await place.cluster.list(PODS, place.namespace, fields=fields)
        assert [item.metadata.name for item in listing.items] == expected, fields


@contract
async def test_unsupported_field_selectors_are_refused(place: Place) -> None:
    with pytest.raises(InvalidError):
        await place.cluster.list(PODS, place.namespace, fields="spec.hostname=a")


@contract
async def test_a_list_of_a_later_version_is_too_new(place: Place) -> None:
    now = (await place.cluster.list(CONFIG_MAPS, place.namespace)).resource_version
    with pytest.raises(TooNewError):
        await place.cluster.list(CONFIG_MAPS, place.namespace, resource_version=str(int(now) + 100_000))


@contract
async def test_an_update_replaces_all_fields_and_changes_the_version(place: Place) -> None:
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
async def test_the_second_update_of_one_version_is_a_conflict(place: Place) -> None:
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
async def test_an_update_with_the_uid_of_another_object_is_a_conflict(place: Place) -> None:
    made = await place.cluster.create(CONFIG_MAPS, config_map("a"), place.namespace)
    await place.cluster.delete(CONFIG_MAPS, "a", place.namespace)
    await place.cluster.create(CONFIG_MAPS, config_map("a"), place.namespace)
    with pytest.raises(ConflictError):
        await place.cluster.update(
            CONFIG_MAPS, config_map("a", {"k": "v"}, uid=made.metadata.uid), place.namespace
        )


@contract
async def test_a_lease_update_requires_its_version(place: Place) -> None:
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
async def test_a_partially_decoded_kind_cannot_be_updated(place: Place) -> None:
    made = await place.cluster.create(PODS, pod("a"), place.namespace)
    with pytest.raises(TypeError):
        await place.cluster.update(PODS, made)


@contract
async def test_a_raw_kind_can_be_updated(place: Place) -> None:
    await place.cluster.create(PODS, pod("a"), place.namespace)
    whole = (await place.cluster.get(PODS.raw(), "a", place.namespace)).document()
    whole["metadata"]["annotations"] = {"note": "x"}
    new = await place.cluster.update(PODS.raw(), whole)
    assert new.metadata.annotations == {"note": "x"}
    assert new.document()["spec"]["containers"][0]["name"] == "main"


@contract
async def test_a_new_pod_has_the_default_scheduler(place: Place) -> None:
    body = pod("a")
    del body["spec"]["schedulerName"]
    made = await place.cluster.create(PODS, body, place.namespace)
    assert made.spec.scheduler_name == "default-scheduler"
    assert made.spec.node_name == ""
    assert made.status.phase == "Pending"
    assert made.metadata.generation == 1


@contract
async def test_cluster_scoped_objects_have_no_namespace(place: Place) -> None:
    made = await place.cluster.create(NODES, node(place, "n"))
    assert made.key == ("", place.name("n"))
    assert (await place.cluster.get(NODES, place.name("n"))).key == made.key
    await place.cluster.delete(NODES, place.name("n"))


@contract
async def test_a_namespaced_request_requires_a_namespace(place: Place) -> None:
    for call in (
        place.cluster.get(PODS, "a"),
        place.cluster.create(PODS, pod("a")),
        place.cluster.delete(PODS, "a"),
    ):
        with pytest.raises(ValueError, match="are namespaced"):
            await call


@contract
async def test_a_deleted_object_is_gone(place: Place) -> None:
    await place.cluster.create(CONFIG_MAPS, config_map("a"), place.namespace)
    await place.cluster.delete(CONFIG_MAPS, "a", place.namespace)
    with pytest.raises(NotFoundError):
        await place.cluster.get(CONFIG_MAPS, "a", place.namespace)


@contract
async def test_a_deletion_checks_its_preconditions(place: Place) -> None:
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
async def test_a_finalizer_keeps_a_deleted_object_until_it_is_removed(place: Place) -> None:
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
