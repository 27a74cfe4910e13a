"""A small cluster of many kinds of accelerators on a real API server, and a replica that schedules there."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from fairlead.cache.types import PLACEMENT, SCHEDULED, LivePod
from fairlead.catalog import Catalog
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import EVENTS, NODES, PODS, RESOURCE_SLICES
from fairlead.errors import AccessError
from fairlead.serve.scheduler.driver import Scheduler
from tests.labs import LABEL, RealCluster
from tests.serve.scheduler.replica import settings
from tests.serve.scheduler.world import World

Devices = Mapping[str, tuple[str, int]]
"""By node: the model of its one accelerator and the GiB that it has; 0: it has no memory to share."""


class Mixed(World):
    """Nodes that have one accelerator each, of different models."""

    def __init__(self, client: Client, namespace: str, devices: Devices) -> None:
        super().__init__(client, namespace, 0)
        self.replica: asyncio.Task[None] | None = None
        self._models = devices
        self.nodes = [self.node(name) for name in devices]

    def node(self, name: str) -> str:
        """Return the full name of a node."""
        return f"{self.namespace}-{name}"

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Mixed"]:
        """Create the nodes; their slices are deleted at the end, the rest is deleted with the namespace."""
        for name, (model, gib) in self._models.items():
            await self.client.create(NODES, self._node(self.node(name)))
            await self.client.create(RESOURCE_SLICES.raw(), self._slice(self.node(name), model, gib))
        try:
            yield self
        finally:
            await self.client.delete_collection(RESOURCE_SLICES, labels=f"{LABEL}={self.namespace}")

    def _slice(self, node: str, model: str, gib: int) -> dict[str, Any]:
        device: dict[str, Any] = {"name": "one", "attributes": {"model": {"string": model}}}
        if gib:
            memory = {"value": f"{gib}Gi", "requestPolicy": _policy(gib)}
            device |= {"capacity": {"memory": memory}, "allowMultipleAllocations": True}
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        return {
            "metadata": {"name": f"{node}-fairlead-0", "labels": {LABEL: self.namespace}},
            "spec": {"driver": "fairlead.dev", "nodeName": node, "pool": pool, "devices": [device]},
        }

    async def create_pod(self, name: str, limits: dict[str, str], **more: Any) -> None:
        """Create a pod as a project publishes it: with limits alone; `more` is its spec, and annotations."""
        meta: dict[str, Any] = {"name": name, "annotations": more.pop("annotations", {})}
        spec = {
            "schedulerName": self.namespace,
            "nodeSelector": {LABEL: self.namespace},
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "x", "resources": {"limits": limits}}],
            **more,
        }
        async with asyncio.timeout(300):
            while True:
                try:
                    await self.client.create(PODS.raw(), {"metadata": meta, "spec": spec}, self.namespace)
                except AccessError as error:
                    if "no PriorityClass" not in str(error):
                        raise
                    await asyncio.sleep(0.1)  # the server's admission learns of a new class by a watch
                else:
                    return

    async def allocated_bytes(self) -> Counter[tuple[str, str]]:
        """Count nothing: these accelerators are of many sizes; check that the scheduler still runs."""
        assert self.replica is None or not self.replica.done(), "the scheduler has ended"
        return Counter()

    async def pending_message(self, name: str, word: str = "") -> str:
        """Wait until a pending pod's condition has a message that contains `word`, and return the message."""

        def has_message(pods: tuple[LivePod, ...]) -> bool:
            return word in (text := _named(pods, name).condition(SCHEDULED).message) and bool(text)

        return _named(await self.until(has_message, 60.0), name).condition(SCHEDULED).message

    async def places(self, *names: str) -> dict[str, str]:
        """Wait until pods are bound, and return the short names of their nodes."""
        pods = await self.until(lambda pods: all(_named(pods, name).spec.node_name for name in names), 60.0)
        return {name: _named(pods, name).spec.node_name.removeprefix(self.node("")) for name in names}

    async def placement_annotation(self, name: str) -> str:
        """Return the placement annotation of a bound pod."""
        return _named(await self.pods(), name).metadata.annotations[PLACEMENT]

    async def events_of(self, name: str) -> list[str]:
        """Return the messages of a pod's events."""
        events = (await self.client.list(EVENTS, self.namespace)).items
        return [event.message for event in events if event.involved_object.name == name]


@asynccontextmanager
async def mixed(
    room: RealCluster, catalog: Catalog, devices: Devices, policy: str = "fairlead"
) -> AsyncIterator[Mixed]:
    """Create a world and run a replica there."""
    stop = asyncio.Event()
    async with room.connect() as client, Mixed(client, room.namespace, devices).open() as world:
        wanted = replace(settings("one", room.namespace), policy=policy)
        world.replica = asyncio.create_task(Scheduler(client, catalog, wanted, _quiet).run(stop))
        try:
            yield world
        finally:
            stop.set()
            await world.replica


def _policy(gib: int) -> dict[str, Any]:
    return {"default": f"{gib}Gi", "validRange": {"min": "1Mi", "step": "1Mi"}}


def _named(pods: tuple[LivePod, ...], name: str) -> LivePod:
    return next((pod for pod in pods if pod.metadata.name == name), LivePod())


def _quiet(_: str) -> None:
    pass
