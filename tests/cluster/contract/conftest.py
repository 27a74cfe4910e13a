"""The arenas of the contract: one fake cluster per test, and one real API server for all of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from fairlead.cluster.kinds import NAMESPACES
from tests.cluster.contract.arena import Arena, Place
from tests.fakecluster.cluster import FakeCluster
from tests.labs import RealCluster


@asynccontextmanager
async def in_memory() -> AsyncIterator[Place]:
    """Open a place in a new fake cluster."""
    memory = FakeCluster()
    await memory.create(NAMESPACES, {"metadata": {"name": "test"}})

    async def forget() -> None:
        memory.compact()

    yield Place(memory, "test", forget)


def for_real(room: RealCluster) -> Arena:
    """Return a factory of places in a real cluster."""

    @asynccontextmanager
    async def open_place() -> AsyncIterator[Place]:
        async with room.connect() as client:
            yield Place(client, room.namespace, forget)

    async def forget() -> None:
        """A real server has no history from before the kind was defined."""

    return open_place


@pytest.fixture(params=["memory", "real"])
def arena(request: pytest.FixtureRequest) -> Arena:
    """Return the arena on which a scenario runs."""
    return in_memory if request.param == "memory" else for_real(request.getfixturevalue("real_cluster"))
