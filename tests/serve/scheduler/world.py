"""A small cluster on a real API server: nodes with accelerators, pods, and an invariant on allocations."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from fairlead.cache import types as seen
from fairlead.cache.types import PLACEMENT, LiveClaim, LivePod
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import NODES, PODS, RESOURCE_SLICES
from fairlead.errors import ClusterError
from fairlead.manifest import amounts
from fairlead.placement import parse_shares
from tests.labs import LABEL, RealCluster
from tests.serve.scheduler.objects import device_slice

GIB = 1 << 30
DEVICE = 4 * GIB
_READS = 5
"""Reads after which a device counts as allocated twice."""


class World:
    """Nodes of one namespace, and the pods on them."""

    def __init__(self, client: Client, namespace: str, nodes: int, devices: int = 2) -> None:
        self.client = client
        self.namespace = namespace
        self._devices = devices
        self.nodes = [f"{namespace}-{number}" for number in range(nodes)]

    @asynccontextmanager
    async def open(self) -> AsyncIterator["World"]:
        """Create the nodes; delete what outlives the namespace at the end."""
        for name in self.nodes:
            await self.build(name)
        try:
            yield self
        finally:
            await self.client.delete_collection(RESOURCE_SLICES, labels=f"{LABEL}={self.namespace}")

    async def build(self, name: str) -> None:
        """Create a node with its devices."""
        await self.client.create(NODES, self._node(name))
        slices = msgspec.to_builtins(device_slice(name, devices=self._devices))
        meta = {"metadata": {"name": slices["metadata"]["name"], "labels": {LABEL: self.namespace}}}
        await self.client.create(RESOURCE_SLICES.raw(), {**slices, **meta})

    def _node(self, name: str) -> dict[str, Any]:
        has = {"cpu": "8", "memory": "32Gi", "pods": "40"}
        meta = {"name": name, "labels": {LABEL: self.namespace}}
        return {"metadata": meta, "status": {"capacity": has, "allocatable": has}}

    async def pod(self, name: str, mib: int = 0, notes: dict[str, str] | None = None, **spec: Any) -> None:
        """Create a pod that names this world's scheduler."""
        size = {"fairlead.dev/gpu-mem": str(mib)} if mib else {}
        resources = {"requests": {"cpu": "50m", **size}, "limits": size}
        body = {
            "metadata": {"name": name, "annotations": notes or {}},
            "spec": {
                "schedulerName": self.namespace,
                "nodeSelector": {LABEL: self.namespace},
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "main", "image": "x", "resources": resources}],
                **spec,
            },
        }
        await self.client.create(PODS.raw(), body, self.namespace)

    async def delete(self, name: str) -> None:
        """Delete a pod at once, with the claims that no controller here would delete."""
        with suppress(ClusterError):
            await self.client.delete(PODS, name, self.namespace, grace=0)
        await self.clean()

    async def clean(self) -> None:
        """Do what the controller manager does: delete the own claims of deleted pods."""
        claims = await self.claims()
        alive = {pod.metadata.uid for pod in await self.pods()}
        for claim in claims:
            owners = {owner_reference.uid for owner_reference in claim.metadata.owner_references}
            if claim.made_by_scheduler and owners.isdisjoint(alive):
                with suppress(ClusterError):
                    free = {"metadata": {"finalizers": None, "uid": claim.metadata.uid}}
                    await self.client.patch(seen.CLAIMS, claim.metadata.name, free, self.namespace)
                    await self.client.delete(seen.CLAIMS, claim.metadata.name, self.namespace)

    async def pods(self) -> tuple[LivePod, ...]:
        return (await self.client.list(seen.PODS, self.namespace)).items

    async def claims(self) -> tuple[LiveClaim, ...]:
        return (await self.client.list(seen.CLAIMS, self.namespace)).items

    async def allocated_bytes(self) -> Counter[tuple[str, str]]:
        """Return the allocated bytes of each device, read from the API alone; check that they fit.

        Claims are read before pods, so a claim that is deleted in between is counted too much. A device that
        is really allocated twice stays so: every one of several reads must show it.
        """
        over: dict[tuple[str, str], int] = {}
        for _ in range(_READS):
            held = await self._read_allocated_bytes()
            over = {key: size for key, size in held.items() if size > DEVICE}
            if not over:
                return held
        devices = json.dumps({str(key): size for key, size in over.items()})
        raise AssertionError(f"allocated more than there is: {devices}")

    async def _read_allocated_bytes(self) -> Counter[tuple[str, str]]:
        claims, pods = await self.claims(), await self.pods()
        held: Counter[tuple[str, str]] = Counter()
        counted = set()
        for claim in claims:
            counted |= set(claim.users)
            for result in claim.results:
                held[result.pool, result.device] += amounts.quantity(
                    "memory", result.consumed_capacity["memory"]
                )
        for pod in pods:
            if pod.spec.node_name and pod.metadata.uid not in counted:
                for share in parse_shares(pod.metadata.annotations.get(PLACEMENT, "[]")) or ():
                    held[pod.spec.node_name, share.device] += share.memory
        return held

    async def until(
        self, right: Callable[[tuple[LivePod, ...]], bool], seconds: float = 300.0
    ) -> tuple[LivePod, ...]:
        """Wait until `right` holds for the pods; meanwhile check that no device is allocated twice."""
        pods: tuple[LivePod, ...] = ()
        try:
            async with asyncio.timeout(seconds):
                while not right(pods := await self.pods()):
                    await self.allocated_bytes()
                    await asyncio.sleep(0.1)
        except TimeoutError:
            waiting = [pod for pod in pods if not pod.spec.node_name]
            reasons = "; ".join(
                f"{pod.metadata.name}: {pod.condition(seen.SCHEDULED).message}" for pod in waiting
            )
            raise AssertionError(f"after {seconds:.0f} s these wait: {reasons}") from None
        return pods


@asynccontextmanager
async def open_world(room: RealCluster, nodes: int, devices: int = 2) -> AsyncIterator[World]:
    """Create a world in a namespace of a real cluster."""
    async with room.connect() as client, World(client, room.namespace, nodes, devices).open() as world:
        yield world


def bound(*names: str) -> Callable[[tuple[LivePod, ...]], bool]:
    """Return whether these pods have a node, as a function; without names, all pods."""
    return lambda pods: all(pod.spec.node_name for pod in pods if not names or pod.metadata.name in names)
