"""The contract, on watches: which events come, from which version, in which order, and how a watch ends."""

from contextlib import aclosing

import pytest

from fairlead.cluster.kinds import CONFIG_MAPS, PODS
from fairlead.compat.aio import timeout
from fairlead.errors import ClusterUnavailableError
from tests.cluster.contract.arena import Place, config_map, contract, first_events, pod


@contract
async def test_a_watch_delivers_all_later_events_in_order(place: Place) -> None:
    cluster, namespace = place.cluster, place.namespace
    start = (await cluster.list(CONFIG_MAPS, namespace)).resource_version
    made = await cluster.create(CONFIG_MAPS, config_map("a"), namespace)
    changed = await cluster.patch(CONFIG_MAPS, "a", {"data": {"k": "v"}}, namespace)
    await cluster.delete(CONFIG_MAPS, "a", namespace)
    again = await cluster.create(CONFIG_MAPS, config_map("a"), namespace)
    events = await first_events(place, CONFIG_MAPS, 4, resource_version=start)
    assert [event.type for event in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]
    assert [events[0].object, events[1].object, events[3].object] == [made, changed, again]
    versions = [int(event.object.metadata.resource_version) for event in events]
    assert versions == sorted(set(versions)), "a deletion has a version of its own"
    assert events[2].object.data == {"k": "v"}


@contract
async def test_a_watch_delivers_events_as_they_happen(place: Place) -> None:
    cluster, namespace = place.cluster, place.namespace
    start = (await cluster.list(CONFIG_MAPS, namespace)).resource_version
    async with aclosing(cluster.watch(CONFIG_MAPS, namespace, resource_version=start)) as events:
        for n in range(3):
            await cluster.create(CONFIG_MAPS, config_map(f"a{n}"), namespace)
            assert (await anext(events)).object.metadata.name == f"a{n}"


@contract
async def test_a_watch_without_a_version_starts_with_the_existing_objects(place: Place) -> None:
    for name in ("a", "b"):
        await place.cluster.create(CONFIG_MAPS, config_map(name, labels={"mine": "yes"}), place.namespace)
    events = await first_events(place, CONFIG_MAPS, 2, labels="mine=yes")
    assert {(event.type, event.object.metadata.name) for event in events} == {("ADDED", "a"), ("ADDED", "b")}


@contract
async def test_a_streamed_list_is_complete_at_its_bookmark(place: Place) -> None:
    cluster, namespace = place.cluster, place.namespace
    for name in ("a", "b", "c"):
        made = await cluster.create(CONFIG_MAPS, config_map(name, labels={"mine": "yes"}), namespace)
    names = []
    stream = cluster.watch(CONFIG_MAPS, namespace, labels="mine=yes", send_initial_events=True)
    async with aclosing(stream) as events:
        async for event in events:
            if event.initial_end:
                break
            assert event.type == "ADDED"
            names.append(event.object.metadata.name)
        assert sorted(names) == ["a", "b", "c"]
        assert int(event.object.metadata.resource_version) >= int(made.metadata.resource_version)
        await cluster.delete(CONFIG_MAPS, "b", namespace)
        after = await anext(events)
        while after.type == "BOOKMARK":
            after = await anext(events)
        assert (after.type, after.object.metadata.name) == ("DELETED", "b")


@contract
async def test_an_empty_list_is_streamed_too(place: Place) -> None:
    stream = place.cluster.watch(CONFIG_MAPS, place.namespace, labels="none=such", send_initial_events=True)
    async with aclosing(stream) as events:
        assert (await anext(events)).initial_end


@contract
async def test_an_object_that_stops_matching_is_deleted_for_the_watch(place: Place) -> None:
    cluster, namespace = place.cluster, place.namespace
    start = (await cluster.list(CONFIG_MAPS, namespace)).resource_version
    await cluster.create(CONFIG_MAPS, config_map("other"), namespace)
    await cluster.create(CONFIG_MAPS, config_map("a"), namespace)
    for value in ("yes", "yes", "no", "yes"):
        change = {"metadata": {"labels": {"mine": value}}, "data": {"n": str(len(value))}}
        await cluster.patch(CONFIG_MAPS, "a", change, namespace)
    await cluster.patch(CONFIG_MAPS, "a", {"data": {"n": "x"}}, namespace)
    events = await first_events(place, CONFIG_MAPS, 4, resource_version=start, labels="mine=yes")
    assert [event.type for event in events] == ["ADDED", "DELETED", "ADDED", "MODIFIED"]
    assert {event.object.metadata.name for event in events} == {"a"}


@contract
async def test_a_bound_pod_is_deleted_for_a_watch_of_pods_without_a_node(place: Place) -> None:
    cluster, namespace = place.cluster, place.namespace
    start = (await cluster.list(PODS, namespace)).resource_version
    made = await cluster.create(PODS, pod("a"), namespace)
    await cluster.bind(namespace, "a", made.metadata.uid, "n1")
    events = await first_events(place, PODS, 2, resource_version=start, fields="spec.nodeName=")
    assert [event.type for event in events] == ["ADDED", "DELETED"]
    events = await first_events(place, PODS, 1, resource_version=start, fields="spec.nodeName=n1")
    assert [(event.type, event.object.spec.node_name) for event in events] == [("ADDED", "n1")]


@contract
async def test_a_deletion_with_a_finalizer_is_first_a_modification(place: Place) -> None:
    cluster, namespace = place.cluster, place.namespace
    start = (await cluster.list(CONFIG_MAPS, namespace)).resource_version
    await cluster.create(CONFIG_MAPS, config_map("a", finalizers=["x.com/hold"]), namespace)
    await cluster.delete(CONFIG_MAPS, "a", namespace)
    await cluster.patch(CONFIG_MAPS, "a", {"metadata": {"finalizers": None}}, namespace)
    events = await first_events(place, CONFIG_MAPS, 3, resource_version=start)
    assert [event.type for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert events[1].object.metadata.deletion_timestamp


@contract
async def test_events_of_other_namespaces_are_left_out(place: Place) -> None:
    cluster, namespace = place.cluster, place.namespace
    start = (await cluster.list(CONFIG_MAPS, namespace)).resource_version
    await cluster.create(CONFIG_MAPS, config_map(place.name("a")), "default")
    await cluster.create(CONFIG_MAPS, config_map("b"), namespace)
    (event,) = await first_events(place, CONFIG_MAPS, 1, resource_version=start)
    assert event.object.key == (namespace, "b")
    await cluster.delete(CONFIG_MAPS, place.name("a"), "default")


@contract
async def test_a_watch_ends_after_its_timeout(place: Place) -> None:
    cluster, namespace = place.cluster, place.namespace
    start = (await cluster.list(CONFIG_MAPS, namespace)).resource_version
    events = [e async for e in cluster.watch(CONFIG_MAPS, namespace, resource_version=start, timeout=2)]
    assert {event.type for event in events} <= {"BOOKMARK"}
    assert all(int(event.object.metadata.resource_version) >= int(start) for event in events)


@contract
async def test_an_idle_watch_is_an_error(place: Place) -> None:
    cluster, namespace = place.cluster, place.namespace
    start = (await cluster.list(CONFIG_MAPS, namespace)).resource_version
    quiet = cluster.watch(CONFIG_MAPS, namespace, resource_version=start, bookmarks=False, idle=0.5)
    with pytest.raises(ClusterUnavailableError):
        async with aclosing(quiet) as events, timeout(10):
            await anext(events)


@contract
async def test_a_watch_from_a_later_version_gets_no_event(place: Place) -> None:
    """The server reports no error, so only the missing events show it: not even a bookmark comes."""
    cluster, namespace = place.cluster, place.namespace
    future = str(int((await cluster.list(CONFIG_MAPS, namespace)).resource_version) + 100_000)
    stream = cluster.watch(CONFIG_MAPS, namespace, resource_version=future, timeout=2)
    await cluster.create(CONFIG_MAPS, config_map("a"), namespace)
    assert [event async for event in stream] == []
