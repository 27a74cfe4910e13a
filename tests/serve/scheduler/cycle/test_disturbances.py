"""Disturbances: a namespace that is deleted, a node that is deleted, a watch that repeats its events."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fairlead.catalog import Catalog
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import NAMESPACES, NODES, RESOURCE_SLICES
from fairlead.cluster.meta import WatchEvent
from fairlead.errors import NotFoundError
from fairlead.serve.scheduler.driver import Scheduler
from tests.labs import LABEL, RealCluster, open_namespace, wipe_namespace
from tests.serve.scheduler.chaos.digest import digest, listed
from tests.serve.scheduler.replica import settings
from tests.serve.scheduler.test_real import running
from tests.serve.scheduler.world import GIB, World, bound, open_world


class RepeatingClient(Client):
    """A client whose watches repeat every event."""

    async def watch(self, *args: Any, **options: Any) -> AsyncGenerator[WatchEvent[Any], None]:
        async for event in super().watch(*args, **options):
            yield event
            yield event


class NodeDeletingClient(Client):
    """A client that deletes a node just before the first pod is bound to it."""

    node = ""

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        if path.endswith("/binding") and self.node:
            name, self.node = self.node, ""
            await self.delete(RESOURCE_SLICES, f"{name}-fairlead-0")
            await self.delete(NODES, name)
        return await super().request(method, path, **options)


@asynccontextmanager
async def scheduling(world: World, catalog: Catalog, client: Client) -> AsyncIterator[Scheduler]:
    """Run a replica with its own client."""
    stop = asyncio.Event()
    replica = Scheduler(client, catalog, settings("one", world.namespace), lambda line: None)
    task = asyncio.create_task(replica.run(stop))
    try:
        yield replica
    finally:
        stop.set()
        await task


def test_an_event_that_a_watch_repeats_counts_once(real_cluster: RealCluster, catalog: Catalog) -> None:
    async def scenario() -> None:
        async with (
            open_world(real_cluster, 2) as world,
            RepeatingClient.connect(real_cluster.config) as client,
            scheduling(world, catalog, client) as replica,
        ):
            for number in range(12):
                await world.pod(f"pod-{number}", mib=1024)
            await world.until(lambda pods: len(pods) == 12 and bound()(pods))
            for number in range(0, 12, 2):
                await world.delete(f"pod-{number}")
            await world.pod("late", mib=2048)
            await world.until(bound("late"))
            assert sum((await world.allocated_bytes()).values()) == 8 * GIB
            await until_known(world, replica)

    asyncio.run(scenario())


async def until_known(world: World, replica: Scheduler) -> None:
    """Wait until the cache of a replica equals that of a fresh list; other tests change the cluster too."""
    async with asyncio.timeout(300):
        while digest(replica.cache) != digest(await listed(world.client, world.namespace)):
            await asyncio.sleep(0.1)


def test_a_node_that_is_deleted_and_created_again_still_holds_its_pod(
    real_cluster: RealCluster, catalog: Catalog
) -> None:
    async def scenario() -> None:
        async with (
            open_world(real_cluster, 1) as world,
            NodeDeletingClient.connect(real_cluster.config) as client,
            scheduling(world, catalog, client),
        ):
            assert isinstance(client, NodeDeletingClient)
            client.node = name = world.nodes[0]
            await world.pod("early", mib=4096)
            await world.until(bound("early"))
            with pytest.raises(NotFoundError):
                await world.client.get(NODES, name)
            await world.build(name)
            for each in ("one", "other"):
                await world.pod(each, mib=4096)
            await world.until(lambda pods: sum(bool(pod.spec.node_name) for pod in pods) == 2)
            assert sorted((await world.allocated_bytes()).values()) == [4 * GIB, 4 * GIB]
            await world.delete("early")
            await world.until(bound("one", "other"))

    asyncio.run(scenario())


def test_a_deleted_namespace_frees_its_devices_and_blocks_no_other_pod(
    real_cluster: RealCluster, catalog: Catalog
) -> None:
    async def scenario() -> None:
        async with open_world(real_cluster, 1) as world, running(world, catalog) as lines:
            guests = World(world.client, f"{real_cluster.namespace}-guests", 0)
            await open_namespace(real_cluster.api, guests.namespace)
            like: dict[str, Any] = {
                "schedulerName": world.namespace,
                "nodeSelector": {LABEL: world.namespace},
            }
            for name in ("held", "too"):
                await guests.pod(name, mib=4096, **like)
            await guests.until(lambda pods: len(pods) == 2 and bound()(pods))
            await guests.pod("waits", mib=4096, **like)
            await world.client.delete(NAMESPACES, guests.namespace)
            await world.pod("mine", mib=4096)
            await guests.delete("held")
            await world.until(bound("mine"))
            assert sorted((await world.allocated_bytes()).values()) == [4 * GIB]
            assert any("guests/waits" in line and "being terminated" in line for line in lines), lines
            await wipe_namespace(real_cluster.api, guests.namespace)
            await world.pod("next", mib=4096)
            await world.until(bound("next"))
            assert sorted((await world.allocated_bytes()).values()) == [4 * GIB, 4 * GIB]

    asyncio.run(scenario())
