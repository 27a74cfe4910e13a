"""Agents for nodes that kwok plays: they give a pod the fullest accelerator that suffices, a little later."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

from fairlead import keys
from fairlead.cache import types as seen
from fairlead.cache.types import LivePod
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import NODES
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.cluster.watch.informer import Informer

LATEST = 0.4
"""Seconds that a kubelet may take to come to a pod; a later one may be first."""


@dataclass(slots=True)
class Books:
    """Who holds what on one node."""

    free: dict[str, int]
    """MiB, by accelerator."""
    held: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By pod."""

    def give(self, pod: str, size: int) -> bool:
        """Give a pod its share; say whether there was room for it."""
        fitting = [(left, name) for name, left in self.free.items() if left >= size]
        if not fitting:
            return False
        _, name = min(fitting)
        self.free[name] -= size
        self.held[pod] = name, size
        return True

    def take_back(self, pod: str) -> None:
        """Take back what a pod held."""
        name, size = self.held.pop(pod, ("", 0))
        if name:
            self.free[name] += size

    def told(self) -> str:
        """Return the annotation of the node."""
        found: dict[str, dict[str, dict[str, int]]] = {}
        for pod, (name, size) in self.held.items():
            found.setdefault(name, {}).setdefault("memory", {})[f"{pod}/main"] = size
        return json.dumps({"version": 1, "accelerators": found})


class Agents:
    """All nodes' agents, and how many pods they had to turn away."""

    def __init__(self, client: Client, devices: dict[str, list[str]], size: int, dice: Random) -> None:
        self._client = client
        self._books = {node: Books(dict.fromkeys(names, size)) for node, names in devices.items()}
        self._dice = dice
        self._group: asyncio.TaskGroup | None = None
        self._coming: set[str] = set()
        self._pens = {node: asyncio.Lock() for node in devices}
        """An agent writes one thing after the other: what is older never comes last."""
        self.given = 0
        self.refused: list[str] = []

    @property
    def holders(self) -> set[str]:
        """The pods that hold something."""
        return {pod for books in self._books.values() for pod in books.held}

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Do what agents do, meanwhile."""
        for node in self._books:
            await self._tell(node)
        try:
            async with asyncio.TaskGroup() as group, Informer(self._client, seen.PODS) as pods:
                self._group = group
                pods.subscribe(self._heard)
                await pods.ready()
                yield
        finally:
            for node in self._books:  # with the agents goes what they said
                await self._client.patch(NODES, node, {"metadata": {"annotations": {keys.ALLOCATED: None}}})

    def _heard(self, change: ObjectChange[LivePod]) -> None:
        pod, before = change.object, change.old
        node, size = pod.spec.node_name, _asked(pod)
        if self._group is None or node not in self._books or not size:
            return
        name = "/".join(pod.key)
        if change.new is None:
            self._coming.discard(name)
            self._books[node].take_back(name)
            self._group.create_task(self._tell(node))
        elif before is None or not before.spec.node_name:
            self._coming.add(name)
            self._group.create_task(self._admit(node, name, size))

    async def _admit(self, node: str, pod: str, size: int) -> None:
        await asyncio.sleep(self._dice.uniform(0, LATEST))
        if pod not in self._coming:  # it went before its turn came
            return
        self.given += 1
        if not self._books[node].give(pod, size):
            self.refused.append(f"{pod}: {size} MiB on {node}, free {self._books[node].free}")
        await self._tell(node)

    async def _tell(self, node: str) -> None:
        async with self._pens[node]:
            note = {"metadata": {"annotations": {keys.ALLOCATED: self._books[node].told()}}}
            await self._client.patch(NODES, node, note)


def _asked(pod: LivePod) -> int:
    return int(str(pod.spec.containers[0].resources.limits.get(keys.GPU_MEM, 0)))
