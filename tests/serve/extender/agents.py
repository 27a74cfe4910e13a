"""Agents for nodes of kwok: they allocate the fullest accelerator that suffices, with a short delay."""

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
"""The longest delay of a kubelet's admission in seconds; a later pod may be admitted first."""


@dataclass(slots=True)
class NodeAllocations:
    """The allocations of one node."""

    free: dict[str, int]
    """MiB, by accelerator."""
    held: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By pod."""

    def allocate(self, pod: str, size: int) -> bool:
        """Allocate a pod's share; say whether there was room for it."""
        fitting = [(left, name) for name, left in self.free.items() if left >= size]
        if not fitting:
            return False
        _, name = min(fitting)
        self.free[name] -= size
        self.held[pod] = name, size
        return True

    def release(self, pod: str) -> None:
        """Release what a pod held."""
        name, size = self.held.pop(pod, ("", 0))
        if name:
            self.free[name] += size

    def annotation(self) -> str:
        """Return the text of the node's annotation."""
        allocated: dict[str, dict[str, dict[str, int]]] = {}
        for pod, (name, size) in self.held.items():
            allocated.setdefault(name, {}).setdefault("memory", {})[f"{pod}/main"] = size
        return json.dumps({"version": 1, "accelerators": allocated})


class Agents:
    """The agents of all nodes, and the pods that they had to refuse."""

    def __init__(self, client: Client, devices: dict[str, list[str]], size: int, dice: Random) -> None:
        self._client = client
        self._allocations = {
            node: NodeAllocations(dict.fromkeys(names, size)) for node, names in devices.items()
        }
        self._dice = dice
        self._group: asyncio.TaskGroup | None = None
        self._pending: set[str] = set()
        self._locks = {node: asyncio.Lock() for node in devices}
        """An agent writes one annotation after the other: an older one never comes last."""
        self.allocated = 0
        self.refused: list[str] = []

    @property
    def holders(self) -> set[str]:
        """The pods that hold something."""
        return {pod for allocations in self._allocations.values() for pod in allocations.held}

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Run the agents as long as the context lasts."""
        for node in self._allocations:
            await self._publish(node)
        try:
            async with asyncio.TaskGroup() as group, Informer(self._client, seen.PODS) as pods:
                self._group = group
                pods.subscribe(self._on_change)
                await pods.wait_for_sync()
                yield
        finally:
            for node in self._allocations:  # their annotations end with the agents
                await self._client.patch(NODES, node, {"metadata": {"annotations": {keys.ALLOCATED: None}}})

    def _on_change(self, change: ObjectChange[LivePod]) -> None:
        pod, before = change.object, change.old
        node, size = pod.spec.node_name, _requested(pod)
        if self._group is None or node not in self._allocations or not size:
            return
        name = "/".join(pod.key)
        if change.new is None:
            self._pending.discard(name)
            self._allocations[node].release(name)
            self._group.create_task(self._publish(node))
        elif before is None or not before.spec.node_name:
            self._pending.add(name)
            self._group.create_task(self._admit(node, name, size))

    async def _admit(self, node: str, pod: str, size: int) -> None:
        await asyncio.sleep(self._dice.uniform(0, LATEST))
        if pod not in self._pending:  # it was deleted before its admission
            return
        self.allocated += 1
        if not self._allocations[node].allocate(pod, size):
            self.refused.append(f"{pod}: {size} MiB on {node}, free {self._allocations[node].free}")
        await self._publish(node)

    async def _publish(self, node: str) -> None:
        async with self._locks[node]:
            patch = {"metadata": {"annotations": {keys.ALLOCATED: self._allocations[node].annotation()}}}
            await self._client.patch(NODES, node, patch)


def _requested(pod: LivePod) -> int:
    return int(str(pod.spec.containers[0].resources.limits.get(keys.GPU_MEM, 0)))
