"""What only the fake cluster does; what it shares with a real one is in the contract."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from datetime import datetime
from random import Random
from typing import Any

import pytest

from fairlead.cluster.api import ClusterClient
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import CONFIG_MAPS, CRDS, NAMESPACES, NODES, PODS, Kind
from fairlead.compat.times import UTC
from fairlead.errors import ClusterUnavailableError, GoneError, InvalidError, MissingApiError, NotFoundError
from tests.cluster.contract.arena import config_map, pod
from tests.fakecluster.cluster import FakeCluster

ROCKETS = Kind.of("space.example", "v1", "rockets", namespaced=True, name="Rocket")
ROCKET_CRD = {
    "metadata": {"name": "rockets.space.example"},
    "spec": {
        "group": "space.example",
        "scope": "Namespaced",
        "names": {"plural": "rockets", "kind": "Rocket"},
        "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}],
    },
}


def clients(client: Client, memory: FakeCluster) -> list[ClusterClient]:
    """Return both as ClusterClient, so that the type checker verifies it."""
    return [client, memory]


def play(scenario: Callable[[FakeCluster], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Turn a scenario into a test on a cluster of its own."""

    def test() -> None:
        asyncio.run(scenario(FakeCluster()))

    test.__name__ = test.__qualname__ = scenario.__name__
    return test


@play
async def test_it_starts_with_the_default_namespaces(cluster: FakeCluster) -> None:
    names = [item.metadata.name for item in (await cluster.list(NAMESPACES)).items]
    assert names == ["default", "kube-system"]


@play
async def test_the_same_seed_gives_the_same_cluster(usual: FakeCluster) -> None:
    async def make() -> str:
        cluster = FakeCluster(now=lambda: datetime(2026, 1, 2, tzinfo=UTC), random=Random(7))
        made = await cluster.create(CONFIG_MAPS, {"metadata": {"generateName": "a-"}}, "default")
        return f"{made.metadata.name} {made.metadata.uid} {made.metadata.creation_timestamp}"

    assert await make() == await make()
    assert (await make()).endswith("2026-01-02T00:00:00Z")


@play
async def test_a_disconnect_ends_every_watch(cluster: FakeCluster) -> None:
    async with aclosing(cluster.watch(NODES, resource_version="1")) as events:
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        cluster.disconnect()
        with pytest.raises(ClusterUnavailableError):
            await waiting


@play
async def test_history_is_bounded(usual: FakeCluster) -> None:
    cluster = FakeCluster(history=10)
    start = (await cluster.list(CONFIG_MAPS)).resource_version
    for n in range(50):
        await cluster.create(CONFIG_MAPS, config_map(f"a{n}"), "default")
    recent = str(int((await cluster.list(CONFIG_MAPS)).resource_version) - 5)
    events = [
        e async for e in cluster.watch(CONFIG_MAPS, resource_version=recent, timeout=0, bookmarks=False)
    ]
    assert len(events) == 5
    with pytest.raises(GoneError):
        await anext(cluster.watch(CONFIG_MAPS, resource_version=start))


@play
async def test_a_current_watch_survives_a_compaction(
    cluster: FakeCluster,
) -> None:
    start = (await cluster.list(CONFIG_MAPS)).resource_version
    async with aclosing(cluster.watch(CONFIG_MAPS, resource_version=start)) as events:
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        cluster.compact()
        await cluster.create(CONFIG_MAPS, config_map("a"), "default")
        assert (await waiting).object.metadata.name == "a"


@play
async def test_bookmarks_come_without_events(usual: FakeCluster) -> None:
    cluster = FakeCluster(bookmark_every=0.01)
    stream = cluster.watch(NODES, resource_version="3", timeout=0.5)
    async with aclosing(stream) as events:
        event = await anext(events)
    assert event.type == "BOOKMARK"
    assert event.object.metadata.resource_version == "3"


@play
async def test_a_kind_is_served_once_it_is_defined(cluster: FakeCluster) -> None:
    with pytest.raises(MissingApiError):
        await cluster.list(ROCKETS)
    await cluster.create(CRDS, ROCKET_CRD)
    made = await cluster.create(ROCKETS, {"metadata": {"name": "a"}, "spec": {"stages": 3}}, "default")
    assert made.document()["kind"] == "Rocket"
    assert made.metadata.generation == 1
    new = await cluster.patch_status(ROCKETS, "a", {"status": {"phase": "Flying"}}, "default")
    assert new.document()["status"] == {"phase": "Flying"}
    assert new.metadata.generation == 1
    new = await cluster.patch(ROCKETS, "a", {"spec": {"stages": 2}}, "default")
    assert new.metadata.generation == 2
    with pytest.raises(InvalidError):
        await cluster.patch(ROCKETS, "a", {"spec": {}}, "default", patch_type="strategic")
    await cluster.delete(CRDS, "rockets.space.example")
    with pytest.raises(MissingApiError):
        await cluster.get(ROCKETS, "a", "default")


@play
async def test_deleting_a_namespace_deletes_its_objects(cluster: FakeCluster) -> None:
    await cluster.create(NAMESPACES, {"metadata": {"name": "room"}})
    await cluster.create(PODS, pod("a"), "room")
    await cluster.create(PODS, pod("a"), "default")
    await cluster.delete(NAMESPACES, "room")
    with pytest.raises(NotFoundError):
        await cluster.get(PODS, "a", "room")
    assert [item.key for item in (await cluster.list(PODS)).items] == [("default", "a")]
