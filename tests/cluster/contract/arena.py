"""Where the contract is played: the cluster in memory and a real API server, one scenario on both."""

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
    """Make the cluster forget its history, where it has not done so by itself."""

    def name(self, short: str) -> str:
        """Return a name for an object of the whole cluster that no other test uses."""
        return f"{self.namespace}-{short}"


Scenario = Callable[[Place], Awaitable[None]]
Arena = Callable[[], AbstractAsyncContextManager[Place]]


def contract(scenario: Scenario) -> Callable[[Arena], None]:
    """Make a test of a scenario: it is played wherever `arena` leads."""

    def test(arena: Arena) -> None:
        async def play() -> None:
            async with timeout(60), arena() as place:
                await scenario(place)

        asyncio.run(play())

    test.__name__, test.__qualname__, test.__module__ = (
        scenario.__name__,
        scenario.__name__,
        scenario.__module__,
    )
    return test


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    """Return the least that is a pod, for a scheduler that is not there."""
    main = {"name": "main", "image": "none"}
    return {"metadata": {"name": name, **metadata}, "spec": {"schedulerName": "nobody", "containers": [main]}}


def node(place: Place, short: str) -> dict[str, Any]:
    """Return the least that is a node; a label has it removed with the namespace of its test."""
    return {"metadata": {"name": place.name(short), "labels": {LABEL: place.namespace}}}


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    """Return a config map: of all kinds the one with the fewest rules of its own."""
    return {"metadata": {"name": name, **metadata}, "data": data or {}}


async def first_events(
    place: Place, kind: Kind[T], count: int, *, namespace: str | None = None, **query: Any
) -> list[WatchEvent[T]]:
    """Return the first events of a watch, bookmarks left out."""
    found: list[WatchEvent[T]] = []
    async with aclosing(place.cluster.watch(kind, namespace or place.namespace, **query)) as events:
        async for event in events:
            if event.type != "BOOKMARK":
                found.append(event)
            if len(found) == count:
                break
    return found
