"""The contract, on patches: merge, JSON, strategic and apply."""

import pytest

from fairlead.cluster.kinds import CONFIG_MAPS, PODS
from fairlead.errors import ConflictError, InvalidError, NotFoundError
from tests.cluster.contract.arena import Place, config_map, contract, pod


@contract
async def test_a_merge_patch_sets_and_removes(place: Place) -> None:
    await place.cluster.create(CONFIG_MAPS, config_map("a", {"k": "v", "l": "w"}), place.namespace)
    new = await place.cluster.patch(CONFIG_MAPS, "a", {"data": {"k": None, "m": "x"}}, place.namespace)
    assert new.data == {"l": "w", "m": "x"}


@contract
async def test_a_patch_that_changes_nothing_is_no_write(place: Place) -> None:
    made = await place.cluster.create(CONFIG_MAPS, config_map("a", {"k": "v"}), place.namespace)
    same = await place.cluster.patch(CONFIG_MAPS, "a", {"data": {"k": "v", "l": None}}, place.namespace)
    assert same.metadata.resource_version == made.metadata.resource_version


@contract
async def test_a_patch_may_be_conditional_on_a_version(place: Place) -> None:
    made = await place.cluster.create(CONFIG_MAPS, config_map("a"), place.namespace)
    version = {"metadata": {"resourceVersion": made.metadata.resource_version}}
    await place.cluster.patch(CONFIG_MAPS, "a", {**version, "data": {"k": "v"}}, place.namespace)
    with pytest.raises(ConflictError):
        await place.cluster.patch(CONFIG_MAPS, "a", {**version, "data": {"k": "w"}}, place.namespace)


@contract
async def test_the_server_keeps_its_own_metadata(place: Place) -> None:
    made = await place.cluster.create(CONFIG_MAPS, config_map("a"), place.namespace)
    change = {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z", "labels": {"k": "v"}}}
    new = await place.cluster.patch(CONFIG_MAPS, "a", change, place.namespace)
    assert new.metadata.creation_timestamp == made.metadata.creation_timestamp
    assert new.metadata.labels == {"k": "v"}
    with pytest.raises(InvalidError):
        await place.cluster.patch(CONFIG_MAPS, "a", {"metadata": {"name": "b"}}, place.namespace)
    with pytest.raises(InvalidError):
        await place.cluster.patch(CONFIG_MAPS, "a", {"metadata": {"uid": "x"}}, place.namespace)


@contract
async def test_a_json_patch_is_atomic(place: Place) -> None:
    await place.cluster.create(CONFIG_MAPS, config_map("a", {"k": "v"}), place.namespace)
    good = [
        {"op": "test", "path": "/data/k", "value": "v"},
        {"op": "move", "from": "/data/k", "path": "/data/moved"},
        {"op": "copy", "from": "/data/moved", "path": "/data/copied"},
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/x.com~1y", "value": "z"},
    ]
    new = await place.cluster.patch(CONFIG_MAPS, "a", good, place.namespace, patch_type="json")
    assert new.data == {"moved": "v", "copied": "v"}
    assert new.metadata.annotations == {"x.com/y": "z"}
    change = {"op": "replace", "path": "/data/moved", "value": "other"}
    for bad in (
        {"op": "test", "path": "/data/copied", "value": "wrong"},
        {"op": "remove", "path": "/data/none"},
        {"op": "add", "path": "/none/none", "value": ""},
        {"op": "move", "from": "/data/none", "path": "/data/moved"},
        {"op": "dance", "path": "/data/moved"},
    ):
        with pytest.raises(InvalidError):
            await place.cluster.patch(CONFIG_MAPS, "a", [change, bad], place.namespace, patch_type="json")
    assert (await place.cluster.get(CONFIG_MAPS, "a", place.namespace)).data == new.data


@contract
async def test_a_json_patch_changes_list_items(place: Place) -> None:
    await place.cluster.create(
        CONFIG_MAPS, config_map("a", finalizers=["x.com/1", "x.com/2"]), place.namespace
    )
    patch = [
        {"op": "add", "path": "/metadata/finalizers/-", "value": "x.com/4"},
        {"op": "add", "path": "/metadata/finalizers/2", "value": "x.com/3"},
        {"op": "remove", "path": "/metadata/finalizers/0"},
    ]
    new = await place.cluster.patch(CONFIG_MAPS, "a", patch, place.namespace, patch_type="json")
    assert new.metadata.finalizers == ("x.com/2", "x.com/3", "x.com/4")
    empty = {"metadata": {"finalizers": None}}
    await place.cluster.patch(CONFIG_MAPS, "a", empty, place.namespace)


@contract
async def test_a_json_patch_can_test_a_version(place: Place) -> None:
    made = await place.cluster.create(CONFIG_MAPS, config_map("a"), place.namespace)
    patch = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": made.metadata.resource_version},
        {"op": "add", "path": "/data", "value": {"k": "v"}},
    ]
    await place.cluster.patch(CONFIG_MAPS, "a", patch, place.namespace, patch_type="json")
    with pytest.raises(InvalidError):
        await place.cluster.patch(CONFIG_MAPS, "a", patch, place.namespace, patch_type="json")


@contract
async def test_a_strategic_patch_merges_lists_by_their_key(place: Place) -> None:
    body = pod("a")
    body["spec"]["containers"].append({"name": "side", "image": "none"})
    await place.cluster.create(PODS, body, place.namespace)
    change = {"spec": {"containers": [{"name": "side", "image": "other"}]}}
    new = await place.cluster.patch(PODS, "a", change, place.namespace, patch_type="strategic")
    assert {item.name: item.image for item in new.spec.containers} == {"main": "none", "side": "other"}


@contract
async def test_a_strategic_patch_treats_finalizers_as_a_set(place: Place) -> None:
    await place.cluster.create(CONFIG_MAPS, config_map("a", finalizers=["x.com/1"]), place.namespace)
    more = {"metadata": {"finalizers": ["x.com/2"]}}
    new = await place.cluster.patch(CONFIG_MAPS, "a", more, place.namespace, patch_type="strategic")
    assert set(new.metadata.finalizers) == {"x.com/1", "x.com/2"}
    less = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.com/1", "x.com/2"]}}
    new = await place.cluster.patch(CONFIG_MAPS, "a", less, place.namespace, patch_type="strategic")
    assert new.metadata.finalizers == ()


@contract
async def test_apply_creates_and_changes(place: Place) -> None:
    cluster, namespace = place.cluster, place.namespace
    made = await cluster.patch(CONFIG_MAPS, "a", config_map("a", {"k": "v"}), namespace, patch_type="apply")
    assert made.metadata.uid
    again = await cluster.patch(CONFIG_MAPS, "a", config_map("a", {"k": "v"}), namespace, patch_type="apply")
    assert again.metadata.resource_version == made.metadata.resource_version, (
        "an unchanged object is not written"
    )
    new = await cluster.patch(
        CONFIG_MAPS, "a", config_map("a", {"k": "w", "l": "x"}), namespace, patch_type="apply"
    )
    assert new.data == {"k": "w", "l": "x"}


@contract
async def test_a_field_that_is_no_longer_applied_is_removed(place: Place) -> None:
    cluster, namespace = place.cluster, place.namespace
    await cluster.patch(
        CONFIG_MAPS, "a", config_map("a", {"k": "v", "l": "w"}), namespace, patch_type="apply"
    )
    await cluster.patch(CONFIG_MAPS, "a", {"data": {"m": "x"}}, namespace, field_manager="other")
    new = await cluster.patch(CONFIG_MAPS, "a", config_map("a", {"k": "v"}), namespace, patch_type="apply")
    assert new.data == {"k": "v", "m": "x"}


@contract
async def test_a_field_of_another_manager_is_only_taken_with_force(place: Place) -> None:
    cluster, namespace = place.cluster, place.namespace
    mine, yours = config_map("a", {"k": "mine"}), config_map("a", {"k": "yours"})
    await cluster.patch(CONFIG_MAPS, "a", mine, namespace, patch_type="apply", field_manager="me")
    with pytest.raises(ConflictError, match="me"):
        await cluster.patch(CONFIG_MAPS, "a", yours, namespace, patch_type="apply", field_manager="you")
    new = await cluster.patch(
        CONFIG_MAPS, "a", yours, namespace, patch_type="apply", field_manager="you", force=True
    )
    assert new.data == {"k": "yours"}
    new = await cluster.patch(
        CONFIG_MAPS, "a", config_map("a"), namespace, patch_type="apply", field_manager="me"
    )
    assert new.data == {"k": "yours"}, "a manager that lost a field cannot remove it"


@contract
async def test_a_shared_field_stays_until_both_managers_drop_it(place: Place) -> None:
    cluster, namespace = place.cluster, place.namespace
    for manager in ("me", "you"):
        await cluster.patch(
            CONFIG_MAPS,
            "a",
            config_map("a", {"k": "v"}),
            namespace,
            patch_type="apply",
            field_manager=manager,
        )
    for manager, left in (("me", {"k": "v"}), ("you", {})):
        new = await cluster.patch(
            CONFIG_MAPS, "a", config_map("a"), namespace, patch_type="apply", field_manager=manager
        )
        assert new.data == left


@contract
async def test_fields_of_plain_writes_have_an_owner(place: Place) -> None:
    cluster, namespace = place.cluster, place.namespace
    await cluster.create(CONFIG_MAPS, config_map("a", {"k": "v"}), namespace, field_manager="me")
    for manager in ("me", "you"):
        with pytest.raises(ConflictError):
            await cluster.patch(
                CONFIG_MAPS,
                "a",
                config_map("a", {"k": "w"}),
                namespace,
                patch_type="apply",
                field_manager=manager,
            )


@contract
async def test_apply_changes_only_its_items_of_a_keyed_list(place: Place) -> None:
    cluster, namespace = place.cluster, place.namespace
    await cluster.create(PODS, pod("a"), namespace)
    for manager, name in (("me", "Mine"), ("you", "Yours"), ("me", "New")):
        change = {"metadata": {"name": "a"}, "status": {"conditions": [{"type": name, "status": "True"}]}}
        new = await cluster.patch_status(
            PODS, "a", change, namespace, patch_type="apply", field_manager=manager
        )
    assert {item.type for item in new.status.conditions} == {"Yours", "New"}


@contract
async def test_apply_to_status_creates_no_object(place: Place) -> None:
    change = {"metadata": {"name": "a"}, "status": {"phase": "Running"}}
    with pytest.raises(NotFoundError):
        await place.cluster.patch_status(PODS, "a", change, place.namespace, patch_type="apply")
