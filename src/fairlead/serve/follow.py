"""Follow the kinds of a cluster; those that it need not serve, from when it does."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

from fairlead.cluster.api import ClusterClient
from fairlead.cluster.kinds import Kind
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.cluster.watch.informer import Informer
from fairlead.errors import ClusterError, MissingApiError, NotFoundError

SELDOM: Final = 60.0
"""Seconds between looks for a kind that was not served: its definition may be installed at any time."""
_NOTHING: Final = "metadata.name=-"
"""No object has this name: whether a kind is served can be asked without being sent all of it."""


class Follower:
    """Informers of one program, in a task group of its own."""

    def __init__(
        self,
        cluster: ClusterClient,
        group: asyncio.TaskGroup,
        heard: Callable[[ObjectChange[Any]], None],
        seldom: float = SELDOM,
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._heard = heard
        self._seldom = seldom
        self.served: set[str] = set()
        """The plural names of the kinds that are followed."""
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self, optional: Iterable[Kind[Any]], always: Iterable[Kind[Any]]) -> None:
        """Follow what there is, one kind after the other; return when all of it is known."""
        for kind in optional:
            if await self._is_served(kind):
                await self._follow(kind)
            else:
                self.tasks.append(self._group.create_task(self._wait_for(kind)))
        for kind in always:
            await self._follow(kind)

    async def _follow(self, kind: Kind[Any]) -> None:
        informer: Informer[Any] = Informer(self._cluster, kind)
        informer.subscribe(self._heard)
        self.served.add(kind.plural)
        self.tasks.append(self._group.create_task(informer.run()))
        await informer.ready()

    async def _wait_for(self, kind: Kind[Any]) -> None:
        served = False
        while not served:
            await asyncio.sleep(self._seldom)
            with suppress(ClusterError):  # asked again the next time
                served = await self._is_served(kind)
        await self._follow(kind)

    async def _is_served(self, kind: Kind[Any]) -> bool:
        try:
            await self._cluster.list(kind, fields=_NOTHING)
        except (MissingApiError, NotFoundError):
            return False
        return True
