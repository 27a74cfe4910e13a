"""A small cluster whose pods request accelerators in every way, and are created and deleted all the time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from random import Random
from typing import Any

import msgspec

from fairlead.cache import types as seen
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import NAMESPACES, PODS, RESOURCE_SLICES, Kind
from fairlead.errors import AlreadyExistsError, ClusterError
from fairlead.keys import PLACEMENT_FORMAT
from fairlead.offer import DRIVER
from tests.serve.scheduler.objects import device_slice
from tests.serve.scheduler.world import World

NODES = 3
HIGH, FIRST, PUSHY = "high", "first", "pushy"
"""Priority classes: their pods take what the next leader finds free, before pods in flight at the last one.
Only `pushy` pods evict others."""
RANKS = {HIGH: 1000, FIRST: 2000, PUSHY: 500}
MOST = 32
"""The most pods at once: together they request more than there is."""


CROWD = (4096, 3072, 3072, 2048, 2048, 2048, 1024, 1024, 1024, 512, 512, 512)
"""The MiB that the pods of a crowd request: they take whatever is free."""


class ChaosWorld(World):
    """Nodes with two devices each; every other one hands over by bindings, the rest by claims."""

    def __init__(self, client: Client, namespace: str, nodes: int) -> None:
        super().__init__(client, namespace, nodes)
        self.churn_lock = asyncio.Lock()
        """While a task holds it, no other task creates or deletes pods."""
        self.to_delete: list[str] = []
        """The pods to delete next."""
        self._crowds = count()

    def _node(self, name: str) -> dict[str, Any]:
        node = super()._node(name)
        node["metadata"]["labels"] |= {"fairlead.dev/t4.count": "3", "fairlead.dev/t4.kind": "gpu"}
        node["metadata"]["labels"] |= {"fairlead.dev/t4.usable": "3", "fairlead.dev/t4.memory-mib": "4096"}
        if self.nodes.index(name) % 2 == 0:
            node["metadata"]["annotations"] = {PLACEMENT_FORMAT: "1"}
            node["status"]["allocatable"] = {**node["status"]["allocatable"], "fairlead.dev/gpu-mem": "8192"}
        return node

    async def claim(self, name: str, mib: int) -> None:
        """Create a claim that a pod may name."""
        exactly = {"deviceClassName": DRIVER, "capacity": {"requests": {"memory": f"{mib}Mi"}}}
        body = {
            "metadata": {"name": name},
            "spec": {"devices": {"requests": [{"name": "it", "exactly": exactly}]}},
        }
        await self.client.create(seen.CLAIMS.raw(), body, self.namespace)

    async def create_random_pods(self, number: int, dice: Random) -> list[str]:
        """Create a pod or a gang that requests in a random way; return the pods' names."""
        name, mib = f"pod-{number}", dice.choice((512, 1024, 2048, 3072))
        rank: dict[str, Any] = {"priorityClassName": HIGH} if dice.random() < 0.25 else {}
        if dice.random() < 0.15:
            rank = {"priorityClassName": PUSHY}
        way = dice.choice(("share", "share", "share", "claim", "gang", "plain"))
        if way == "claim":
            await self.claim(name, mib)
            await self.pod(name, resourceClaims=[{"name": "gpu", "resourceClaimName": name}], **rank)
        elif way == "gang":
            notes = {"fairlead.dev/gang": name, "fairlead.dev/gang-size": "2"}
            for each in "ab":
                await self.pod(f"{name}-{each}", mib=mib, notes=notes, **rank)
            return [f"{name}-a", f"{name}-b"]
        else:
            await self.pod(name, mib=mib if way == "share" else 0, **rank)
        return [name]

    async def churn(self, dice: Random) -> None:
        """Create and delete pods until cancelled; pause while the API server is unavailable."""
        alive: list[str] = []
        for number in count():
            with suppress(ClusterError):
                async with self.churn_lock:
                    while self.to_delete:
                        await self.delete(self.to_delete.pop())
                    alive += await self.create_random_pods(number, dice)
                    while len(alive) > MOST:
                        await self.delete(alive.pop(dice.randrange(len(alive))))
            await asyncio.sleep(0.05)

    async def create_crowd(self) -> list[str]:
        """Create a crowd of pods with the highest priority; return their names."""
        first = next(self._crowds)
        sizes = {f"crowd-{first}-{number}": mib for number, mib in enumerate(CROWD)}
        await asyncio.gather(
            *(self.pod(name, mib=mib, priorityClassName=FIRST) for name, mib in sizes.items())
        )
        return list(sizes)

    async def sweep(self, dice: Random) -> None:
        """Delete half of the pods at once."""
        pods = [pod.metadata.name for pod in await self.pods() if pod.metadata.name != "mark"]
        await asyncio.gather(*(self.delete(name) for name in pods if dice.random() < 0.5))

    async def delete(self, name: str) -> None:
        """Delete a pod at once."""
        with suppress(ClusterError):
            await self.client.delete(PODS, name, self.namespace, grace=0)

    async def tidy(self) -> None:
        """Do what the controller manager does, until cancelled: deallocate claims of deleted pods."""
        while True:
            with suppress(ClusterError):
                await self.end_leaving()
                await self.clean()
                await self.free_named()
            await asyncio.sleep(0.1)

    async def end_leaving(self) -> None:
        """Do what kubelets do: end pods that are being deleted."""
        for pod in await self.pods():
            if pod.metadata.deletion_timestamp:
                await self.delete(pod.metadata.name)

    async def shrink(self, seconds: float) -> None:
        """Remove a device from a node's slice for a while, also one in use; its labels still count it."""
        kind, name = RESOURCE_SLICES.raw(), f"{self.nodes[-1]}-fairlead-0"
        for devices, generation in ((1, 2), (2, 3)):
            listed = msgspec.to_builtins(device_slice(self.nodes[-1], devices=devices, generation=generation))
            spec = {"pool": listed["spec"]["pool"], "devices": listed["spec"]["devices"]}
            with suppress(ClusterError):
                await self.client.patch(kind, name, {"spec": spec})
            await asyncio.sleep(seconds)

    async def free_named(self) -> None:
        """Deallocate named claims of deleted pods, and delete claims that no pod names."""
        claims = await self.claims()
        pods = await self.pods()
        alive, names = {pod.metadata.uid for pod in pods}, {pod.metadata.name for pod in pods}
        for claim in claims:
            meta, users = claim.metadata, {each.uid for each in claim.status.reserved_for}
            if claim.made_by_scheduler or not users.isdisjoint(alive) or meta.name in names:
                continue
            if claim.results:
                free = {
                    "metadata": {"resourceVersion": meta.resource_version},
                    "status": {"reservedFor": None, "allocation": None},
                }
                await self.client.patch_status(seen.CLAIMS, meta.name, free, self.namespace)
            else:
                unprotected = {"metadata": {"finalizers": None, "uid": meta.uid}}
                await self.client.patch(seen.CLAIMS, meta.name, unprotected, self.namespace)
                await self.client.delete(seen.CLAIMS, meta.name, self.namespace)


@asynccontextmanager
async def open_chaos_world(client: Client, namespace: str) -> AsyncIterator[ChaosWorld]:
    """Create a world in a namespace of its own, with the objects that the judge writes marks to."""
    await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    classes: Kind[Any] = Kind.of(
        "scheduling.k8s.io", "v1", "priorityclasses", namespaced=False, name="PriorityClass"
    )
    for name, value in RANKS.items():
        policy = "PreemptLowerPriority" if name == PUSHY else "Never"
        rank = {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
        with suppress(AlreadyExistsError):
            await client.create(classes.raw(), rank)
    world = ChaosWorld(client, namespace, NODES)
    async with world.open():
        await world.pod("mark", schedulerName="none")
        await world.claim("mark", 1)
        yield world
