"""The arenas of the contract: one cluster in memory per test, and one real API server for all of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from fairlead.cluster.kinds import NAMESPACES
from tests.cluster.contract.arena import Arena, Place
from tests.fakecluster.cluster import FakeCluster
from tests.labs import RealCluster


@asynccontextmanager
async def in_memory() -> AsyncIterator[Place]:
    """Open a place in a new cluster in memory."""
    memory = FakeCluster()
    await memory.create(NAMESPACES, {"metadata": {"name": "test"}})

    async def forget() -> None:
        memory.compact()

    yield Place(memory, "test", forget)


def for_real(room: RealCluster) -> Arena:
    """Return what opens a place in a real cluster."""

    @asynccontextmanager
    async def open_place() -> AsyncIterator[Place]:
        async with room.connect() as client:
            yield Place(client, room.namespace, forget)

    async def forget() -> None:
        """A real one has no history of what was there before the kind itself."""

    return open_place


@pytest.fixture(params=["memory", "real"])
def arena(request: pytest.FixtureRequest) -> Arena:
    """Return where a scenario is to be played."""
    return in_memory if request.param == "memory" else for_real(request.getfixturevalue("real_cluster"))
