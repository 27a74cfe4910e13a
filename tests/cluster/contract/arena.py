"""The arenas of the contract: the fake cluster and a real API server, with the same scenarios on both."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import Any

from fairlead.cluster.api import ClusterClient
from fairlead.cluster.kinds import Kind
from fairlead.cluster.meta import T, WatchEvent
from fairlead.compat.aio import timeout
from tests.labs import LABEL


@dataclass(frozen=True)
class Place:
    """A cluster, and a namespace in it that belongs to one test."""

    cluster: ClusterClient
    namespace: str
    forget: Callable[[], Awaitable[None]]
    """Make the cluster drop its history, if it has not done so by itself."""

    def name(self, short: str) -> str:
        """Return a name for a cluster-scoped object that no other test uses."""
        return f"{self.namespace}-{short}"


Scenario = Callable[[Place], Awaitable[None]]
Arena = Callable[[], AbstractAsyncContextManager[Place]]


def contract(scenario: Scenario) -> Callable[[Arena], None]:
    """Turn a scenario into a test that runs on every `arena`."""

    def test(arena: Arena) -> None:
        async def play() -> None:
            async with timeout(300), arena() as place:
                await scenario(place)

        asyncio.run(play())

    test.__name__, test.__qualname__, test.__module__ = (
        scenario.__name__,
        scenario.__name__,
        scenario.__module__,
    )
    return test


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    """Return a minimal pod, for a scheduler that does not exist."""
    main = {"name": "main", "image": "none"}
    return {"metadata": {"name": name, **metadata}, "spec": {"schedulerName": "none", "containers": [main]}}


def node(place: Place, short: str) -> dict[str, Any]:
    """Return a minimal node; its label removes it with the namespace of its test."""
    return {"metadata": {"name": place.name(short), "labels": {LABEL: place.namespace}}}


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    """Return a config map: the kind with the fewest rules of its own."""
    return {"metadata": {"name": name, **metadata}, "data": data or {}}


async def first_events(
    place: Place, kind: Kind[T], count: int, *, namespace: str | None = None, **query: Any
) -> list[WatchEvent[T]]:
    """Return the first events of a watch, bookmarks left out."""
    received: list[WatchEvent[T]] = []
    async with aclosing(place.cluster.watch(kind, namespace or place.namespace, **query)) as events:
        async for event in events:
            if event.type != "BOOKMARK":
                received.append(event)
            if len(received) == count:
                break
    return received
