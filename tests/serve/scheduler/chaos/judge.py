"""Check that no device is allocated twice, from the API's objects alone, at every version that they had.

Every eviction is checked too: its victim was bound, and its preemptor exists, has a higher priority, and
is pending, or was a moment ago. And no pod or claim is allocated a device that no slice names.

Pods and claims have their versions from one clock, etcd's. The events of two watches are put back into its
order, and the allocations of each device are summed up after every single write. Marks that are written to
one object of each kind, now and then, show how far both watches have come.
"""

import asyncio
import heapq
import time
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from fairlead.cache.types import CLAIMS, DISRUPTION, PODS, PREEMPTING, LiveClaim, LivePod
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import Kind
from fairlead.errors import ClusterError, GoneError
from tests.serve.scheduler.allocated import allocated_bytes

_EVICTED = "EvictionByEvictionAPI"
"""The reason that the API server writes into the condition of a pod that it evicts."""
_MOMENT = 3.0
"""Seconds for which an eviction may be on its way after its preemptor is no longer pending."""


@dataclass
class Judge:
    """The writes of a namespace, in order."""

    client: Client
    namespace: str
    capacity: int
    reached: dict[str, int] = field(default_factory=lambda: {"pods": 0, "resourceclaims": 0})
    checked: int = 0
    """Versions after which everything was summed up."""
    gaps: int = 0
    """How often a watch had to list again, because etcd was compacted."""
    violations: list[str] = field(default_factory=list)
    """What was observed and must not happen."""
    fullest: int = 0
    evictions: int = 0
    devices: frozenset[str] = frozenset({"gpu-0", "gpu-1"})
    """The devices that slices name."""
    _waiting: dict[str, int] = field(default_factory=dict)
    """The priorities of pods that are, or were, pending, by name."""
    _stopped: dict[str, float] = field(default_factory=dict)
    """When a pod was first seen no longer pending, by name."""
    _marked: dict[str, str] = field(default_factory=dict)
    """The preemptor that a victim's condition named, by the victim's uid."""
    _judged: set[str] = field(default_factory=set)
    """The uids of pods whose eviction was checked."""
    _live: dict[str, dict[str, Any]] = field(default_factory=lambda: {"pods": {}, "resourceclaims": {}})
    """Objects as last seen, by kind and uid."""
    _heap: list[tuple[int, int, str, Any]] = field(default_factory=list)
    _order: "count[int]" = field(default_factory=count)
    _pods: dict[str, LivePod] = field(default_factory=dict)
    _claims: dict[str, LiveClaim] = field(default_factory=dict)

    async def follow(self, kind: Kind[Any]) -> None:
        """List and watch a kind until cancelled, whatever happens to the API server."""
        while True:
            with suppress(ClusterError):
                listing = await self.client.list(kind, self.namespace)
                at = int(listing.resource_version)
                there = {each.metadata.uid for each in listing.items}
                for each in listing.items:
                    self._record("ADDED", each, _version(each))
                for gone in [each for uid, each in self._live[kind.plural].items() if uid not in there]:
                    self._record("DELETED", gone, at)
                self.reached[kind.plural] = max(self.reached[kind.plural], at)
                await self._watch(kind)
            await asyncio.sleep(0.05)

    async def _watch(self, kind: Kind[Any]) -> None:
        while True:
            version = str(self.reached[kind.plural])
            try:
                stream = self.client.watch(kind, self.namespace, resource_version=version, idle=20.0)
                async with aclosing(stream) as events:
                    async for event in events:
                        if event.type != "BOOKMARK":
                            self._record(event.type, event.object, _version(event.object))
            except GoneError:
                self.gaps += 1
                return
            except ClusterError:
                await asyncio.sleep(0.05)

    def _record(self, what: str, item: Any, version: int) -> None:
        kind = "pods" if isinstance(item, LivePod) else "resourceclaims"
        self._live[kind].pop(item.metadata.uid, None)
        if what != "DELETED":
            self._live[kind][item.metadata.uid] = item
        heapq.heappush(self._heap, (version, next(self._order), what, item))
        self.reached[kind] = max(self.reached[kind], version)

    async def mark(self) -> None:
        """Write marks until cancelled, so that both watches have events."""
        for number in count():
            patch = {"metadata": {"annotations": {"mark": str(number)}}}
            kinds: tuple[Kind[Any], ...] = (PODS, CLAIMS)
            for kind in kinds:
                with suppress(ClusterError):
                    await self.client.patch(kind, "mark", patch, self.namespace)
            await asyncio.sleep(0.1)
            self.check()

    def check(self) -> None:
        """Sum up after every write that both watches have reached."""
        known = min(self.reached.values())
        while self._heap and self._heap[0][0] <= known:
            version, _, what, item = heapq.heappop(self._heap)
            objects: dict[str, Any] = self._pods if isinstance(item, LivePod) else self._claims
            if what == "DELETED":
                objects.pop(item.metadata.uid, None)
            else:
                objects[item.metadata.uid] = item
            self.checked += 1
            self._sum(version)
            if isinstance(item, LivePod):
                self._judge(version, item, there=what != "DELETED")

    def _judge(self, version: int, pod: LivePod, *, there: bool) -> None:
        """Check the eviction of a pod when it is first seen leaving."""
        meta, now = pod.metadata, time.monotonic()
        name = f"{meta.namespace}/{meta.name}"
        if there and not pod.spec.node_name and not meta.deletion_timestamp:
            self._waiting[name] = pod.spec.priority or 0
            self._stopped.pop(name, None)
        elif name in self._waiting:
            self._stopped.setdefault(name, now)
        disruption = pod.condition(DISRUPTION)
        if disruption.message.startswith(PREEMPTING):
            self._marked[meta.uid] = disruption.message.removeprefix(PREEMPTING)
        if disruption.reason != _EVICTED or meta.uid in self._judged:
            return
        self._judged.add(meta.uid)
        self.evictions += 1
        preemptor = self._marked.get(meta.uid, "")
        if not pod.spec.node_name:
            self.violations.append(f"version {version}: {name} was evicted and never bound")
        above = self._waiting.get(preemptor, 0) > (pod.spec.priority or 0)
        if not above or now - self._stopped.get(preemptor, now) > _MOMENT:
            self.violations.append(f"version {version}: {name} was evicted in vain for {preemptor!r}")

    def _sum(self, version: int) -> None:
        held = allocated_bytes(self._pods.values(), self._claims.values(), self.capacity)
        self.violations += [
            f"version {version}: {device} of {node} is allocated, which no slice names"
            for node, device in held
            if device not in self.devices
        ]
        self.fullest = max(self.fullest, *held.values(), 0)
        self.violations += [
            f"version {version}: {size >> 20} MiB of {device}"
            for device, size in held.items()
            if size > self.capacity
        ]


def _version(item: Any) -> int:
    return int(item.metadata.resource_version)
