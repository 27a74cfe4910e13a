"""A cluster full of low-priority pods on a real API server, which ends and replaces evicted pods."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from random import Random
from typing import Any

from fairlead.cache.types import DISRUPTION, PREEMPTED, PREEMPTING, LivePod
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import EVENTS, PODS, Kind
from fairlead.errors import AlreadyExistsError, ClusterError
from tests.serve.scheduler.world import World, bound

HIGH = "preempts"
_GRACE = 200
"""Lists of a leaving pod, after which it ends in any case."""
HALF, WHOLE = 2048, 4096
"""MiB of half a device, and of all of it."""


def preemptor_of(victim: LivePod) -> str:
    """Return the preemptor that a victim's condition names."""
    mark = victim.condition(DISRUPTION)
    ours = (mark.status, mark.reason) == ("True", PREEMPTED) and mark.message.startswith(PREEMPTING)
    return mark.message.removeprefix(PREEMPTING) if ours else ""


class FullWorld(World):
    """Every device is held by two pods; an evicted pod ends, and another like it is created and waits."""

    def __init__(self, client: Client, namespace: str, nodes: int, devices: int = 2) -> None:
        super().__init__(client, namespace, nodes, devices)
        self.evicted: dict[str, LivePod] = {}
        """Pods that were deleted, as last seen, by uid."""
        self._numbers = count()
        self.ending = asyncio.Event()
        """Whether pods that are being deleted end."""
        self.ending.set()

    async def create_low(self, number: int) -> list[str]:
        """Create pods of low priority; return their names."""
        names = [f"low-{next(self._numbers)}" for _ in range(number)]
        await asyncio.gather(*(self.pod(name, mib=HALF) for name in names))
        return names

    async def run_controllers(self, back: bool) -> None:
        """Do what kubelets and a ReplicaSet do, until cancelled: end leaving pods, and replace them.

        A victim ends when its condition names the preemptor, or after a long grace.
        """
        looks: Counter[str] = Counter()
        while True:
            await self.ending.wait()
            with suppress(ClusterError):
                for pod in [pod for pod in await self.pods() if pod.metadata.deletion_timestamp]:
                    uid = pod.metadata.uid
                    looks[uid] += 1
                    if uid in self.evicted or not (preemptor_of(pod) or looks[uid] > _GRACE):
                        continue
                    self.evicted[uid] = pod
                    await self.delete(pod.metadata.name)
                    if back:
                        await self.create_low(1)
            await asyncio.sleep(0.05)

    async def fill(self, waiting: int) -> None:
        """Fill every device, and create more pods that wait."""
        full = await self.create_low(len(self.nodes) * self._devices * 2)
        await self.until(lambda pods: len(pods) == len(full) and bound()(pods))
        await self.create_low(waiting)

    async def clear(self) -> None:
        """Delete all pods."""
        await self.client.delete_collection(PODS, self.namespace, grace=0)
        await self.until(lambda pods: not pods)
        await self.clean()
        self.evicted.clear()

    async def preempt(self, dice: Random) -> tuple[list[str], int]:
        """Create a pod, a pair or a gang of high priority; return their names and the number of victims."""
        kind, rank = dice.choice(("single", "half", "pair", "gang")), {"priorityClassName": HIGH}
        if kind == "gang":
            size = dice.randint(2, len(self.nodes) * self._devices)
            notes = {"fairlead.dev/gang": "ring", "fairlead.dev/gang-size": str(size)}
            names = [f"vip-{number}" for number in range(size)]
            await asyncio.gather(*(self.pod(name, mib=WHOLE, notes=notes, **rank) for name in names))
            return names, 2 * size
        notes = {"fairlead.dev/accelerator-count": "2"} if kind == "pair" else {}
        await self.pod("vip", mib=HALF if kind == "half" else WHOLE, notes=notes, **rank)
        return ["vip"], {"half": 1, "single": 2, "pair": 4}[kind]

    async def preempted_messages(self) -> set[str]:
        """Return the messages of the events on preempted pods."""
        events = (await self.client.list(EVENTS, self.namespace)).items
        return {event.message for event in events if event.reason == "Preempted"}


@asynccontextmanager
async def open_full_world(
    client: Client, namespace: str, nodes: int, *, back: bool = True
) -> AsyncIterator[FullWorld]:
    """Create such a cluster."""
    classes: Kind[Any] = Kind.of(
        "scheduling.k8s.io", "v1", "priorityclasses", namespaced=False, name="PriorityClass"
    )
    with suppress(AlreadyExistsError):
        await client.create(classes.raw(), {"metadata": {"name": HIGH}, "value": 1000})
    full = FullWorld(client, namespace, nodes)
    async with full.open():
        keeper = asyncio.create_task(full.run_controllers(back))
        try:
            yield full
        finally:
            keeper.cancel()
