"""Watch the kinds of a cluster; optional kinds from the moment the API server serves them."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from fairlead.cluster.api import ClusterClient
from fairlead.cluster.kinds import Kind
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.cluster.watch.informer import Informer
from fairlead.errors import ClusterError, MissingApiError, NotFoundError

PROBE_INTERVAL: Final = 60.0
"""Seconds between checks for a kind that is not served: its definition may be installed at any time."""
_NO_OBJECT: Final = "metadata.name=-"
"""No object has this name: a list with this selector shows whether a kind is served, and is empty."""


class Follower:
    """Runs the informers of one program, in a task group of its own."""

    def __init__(
        self,
        cluster: ClusterClient,
        group: asyncio.TaskGroup,
        on_change: Callable[[ObjectChange[Any]], None],
        probe_interval: float = PROBE_INTERVAL,
        selectors: Mapping[str, str] | None = None,
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._on_change = on_change
        self._probe_interval = probe_interval
        self._selectors = selectors or {}
        """Label selectors by resource; of the others, every object is watched."""
        self.served: set[str] = set()
        """The plural names of the watched kinds."""
        self.tasks: list[asyncio.Task[None]] = []
        self.informers: dict[str, Informer[Any]] = {}
        """By resource."""

    async def start(self, optional: Iterable[Kind[Any]], always: Iterable[Kind[Any]]) -> None:
        """Watch the kinds that are served, one after the other; return when all of them are listed."""
        for kind in optional:
            if await self._is_served(kind):
                await self._follow(kind)
            else:
                self.tasks.append(self._group.create_task(self._wait_for(kind)))
        for kind in always:
            await self._follow(kind)

    async def _follow(self, kind: Kind[Any]) -> None:
        informer: Informer[Any] = Informer(self._cluster, kind, labels=self._selectors.get(kind.resource))
        informer.subscribe(self._on_change)
        self.informers[kind.resource] = informer
        self.served.add(kind.plural)
        self.tasks.append(self._group.create_task(informer.run()))
        await informer.wait_for_sync()

    async def _wait_for(self, kind: Kind[Any]) -> None:
        served = False
        while not served:
            await asyncio.sleep(self._probe_interval)
            with suppress(ClusterError):  # checked again the next time
                served = await self._is_served(kind)
        await self._follow(kind)

    async def _is_served(self, kind: Kind[Any]) -> bool:
        try:
            await self._cluster.list(kind, fields=_NO_OBJECT)
        except (MissingApiError, NotFoundError):
            return False
        return True
