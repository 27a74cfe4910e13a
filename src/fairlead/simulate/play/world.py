"""The simulated world: the cluster as the scheduler sees it, and the real state of the accelerators."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from typing import Protocol

from fairlead.placement import Decision, NodeState, Placement
from fairlead.request import WHOLE, Request
from fairlead.schedule import EngineCluster, decide, preempt, typical_demand
from fairlead.schedule.score.fragments import PUBLISHED, Fragments
from fairlead.simulate.play.accelerator import SimulatedAccelerator
from fairlead.simulate.play.telemetry import SimulatedTelemetry
from fairlead.simulate.report.recorder import Gauge
from fairlead.simulate.trace.job import SimulatedFleet


class World:
    """The state that a policy may read and a simulation changes."""

    def __init__(self, fleet: SimulatedFleet, requests: Iterable[Request]) -> None:
        self.now = 0.0
        self.nodes = {node.name: node for node in fleet.nodes}
        """The nodes in healthy state."""
        self.cluster = EngineCluster(fleet.nodes, fleet.residents, typical_demand(requests))
        self.residents = {placement.request.id: placement for placement in fleet.residents}
        """Placements from before the trace; they are never evicted."""
        self._fragments = Fragments(self.cluster, PUBLISHED)
        self._fragmented, self._measured = 0.0, -inf
        self.grain = 0.0
        """Seconds between two measurements of fragments."""
        self.telemetry = SimulatedTelemetry()
        self.accelerators = {
            (node.name, device.id): SimulatedAccelerator(
                node.name,
                device,
                fleet.power.get(device.model),
                overhead=fleet.first_context.get(device.model, 0),
            )
            for node in fleet.nodes
            for device in node.devices
        }
        self.broken: set[tuple[str, str]] = set()
        """Nodes (with an empty device) and accelerators that are down."""
        self._memory = self._busy = 0.0
        self._allocated = sum(self._part(placement) for placement in fleet.residents)
        self._watts = sum(accelerator.watts for accelerator in self.accelerators.values())
        self._capacity = sum(accelerator.state.healthy for accelerator in self.accelerators.values())

    # The cluster, as the scheduler sees it

    def count(self, placements: Iterable[Placement]) -> None:
        """Count bound placements as allocated."""
        self._allocated += sum(self._part(placement) for placement in placements)

    def release(self, placements: Iterable[Placement]) -> None:
        """Count placements as free again, and release those that are still bound."""
        for placement in placements:
            if self.cluster.placement(placement.request.id) is not None:
                self.cluster.release(placement.request.id)
            self._allocated -= self._part(placement)

    def fail(self, node: str, device: str) -> None:
        """Mark a node or an accelerator as failed; its placements must be released before."""
        self.broken.add((node, device))
        self._refresh_node(node)

    def repair(self, node: str, device: str) -> None:
        """Mark a node or an accelerator as repaired."""
        self.broken.discard((node, device))
        self._refresh_node(node)

    # The real state of the accelerators

    @contextmanager
    def changing(self, accelerator: SimulatedAccelerator) -> Iterator[None]:
        """Keep the sums consistent while an accelerator changes."""
        memory, busy, watts = accelerator.memory, accelerator.busy, accelerator.watts
        yield
        self._memory += accelerator.memory - memory
        self._busy += accelerator.busy - busy
        self._watts += accelerator.watts - watts
        self.telemetry.record(self.now, accelerator)

    def gauge(self, waiting: int, running: int) -> Gauge:
        """Return the current gauges."""
        return Gauge(
            allocated=self._allocated,
            fragmented=self._fragments_now(),
            capacity=self._capacity,
            waiting=waiting,
            running=running,
            memory=self._memory,
            busy=self._busy,
            watts=self._watts,
        )

    # Inside

    def _fragments_now(self) -> float:
        if self.now - self._measured < self.grain:
            return self._fragmented
        if not self._fragments.current:
            self._fragments = Fragments(self.cluster, PUBLISHED)
        self._fragments.refresh()
        self._fragmented, self._measured = float(self._fragments.amount.sum()) / WHOLE, self.now
        return self._fragmented

    def _part(self, placement: Placement) -> float:
        """Return the accelerators that a placement takes, shares as fractions."""
        total = 0.0
        for share in placement.shares:
            state = self.accelerators[placement.node, share.device].state
            of_memory = share.memory / state.memory if state.memory else 0.0
            total += 1.0 if share.whole else min(1.0, max(of_memory, share.compute / WHOLE))
        return total

    def _refresh_node(self, name: str) -> None:
        """Update a node in the scheduler's cluster to its current state."""
        before = self.cluster.node(name)
        after = self._state(name)
        if after is not None:
            self.cluster.put(after)
        elif before is not None:
            removed = self.cluster.remove(name)
            self._allocated -= sum(self._part(placement) for placement in removed)
        self._capacity += _healthy(after) - _healthy(before)

    def _state(self, name: str) -> NodeState | None:
        if (name, "") in self.broken:
            return None
        node = self.nodes[name]
        devices = (
            replace(device, healthy=False) if (name, device.id) in self.broken else device
            for device in node.devices
        )
        return replace(node, devices=tuple(devices))


def _healthy(node: NodeState | None) -> int:
    return sum(device.healthy for device in node.devices) if node else 0


class PlacementPolicy(Protocol):
    """A policy under simulation: one of the engine, or one that also reads `world.telemetry`."""

    @property
    def name(self) -> str:
        """The name in reports."""

    @property
    def every(self) -> float | None:
        """Seconds after which waiting jobs are retried without an event; None: never."""

    def choose(self, world: World, request: Request, evict: bool) -> Decision:
        """Decide where a request goes; with `evict` it may preempt pods of lower priority."""


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """A policy of the engine: it decides by requests and allocations."""

    name: str
    every: float | None = None

    def choose(self, world: World, request: Request, evict: bool) -> Decision:
        """Decide where a request goes."""
        if evict:
            return preempt(world.cluster, request, self.name, spared=world.residents)
        return decide(world.cluster, request, self.name)
