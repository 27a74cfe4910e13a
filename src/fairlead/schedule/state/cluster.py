"""The state of a cluster: add and remove nodes, bind and release requests, and roll back."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np

from fairlead.errors import AllocationRefusedError
from fairlead.need import headroom
from fairlead.placement import DeviceState, DisruptionBudget, NodeState, Placement
from fairlead.request import NO_BYTES, Request
from fairlead.schedule.score.mix import EVEN, DemandMix
from fairlead.schedule.state.columns import Columns, Ints
from fairlead.schedule.state.deficit import column_of, deficit_for
from fairlead.schedule.state.pod_counts import PodCounts
from fairlead.schedule.state.tolerance import tolerated_slowdown
from fairlead.share import DeviceShare
from fairlead.units import Bytes

ABSENT: Final = -1
"""The row of a node that the cluster does not have."""
MIN_LOG_LENGTH: Final = 4096
"""Changes that the log keeps, or four for each row; a reader that lags further behind starts over."""


@dataclass(frozen=True, slots=True)
class DeviceFree:
    """The free capacity of an accelerator."""

    id: str
    memory: Bytes
    compute: int
    holders: int
    total: Bytes = NO_BYTES
    """The memory of the accelerator."""
    soft: bool = False
    """Whether some holder may hold more than it counts for; then `memory` is without the headroom."""
    measured: Bytes = NO_BYTES
    """Free memory that a published rule grants by measured use; 0: none."""


class LargestNode(NamedTuple):
    """CPU and accelerators of the largest node: some scores are relative to it."""

    cpu: int
    devices: int


@dataclass(frozen=True, slots=True)
class NodeFree:
    """The free capacity of a node."""

    cpu: int
    memory: Bytes
    pods: int
    devices: tuple[DeviceFree, ...]


class EngineCluster:
    """Nodes and their placements, kept as columns and updated incrementally."""

    def __init__(
        self,
        nodes: Iterable[NodeState] = (),
        placements: Iterable[Placement] = (),
        mix: DemandMix = EVEN,
    ) -> None:
        self.columns = Columns()
        self.pod_counts = PodCounts()
        self.mix = mix
        """The expected demand: fragmentation is measured against it."""
        self._ended = 0  # placements that were released
        self.learn_again: int | None = None
        """Where the demand is learned from what runs: the number of changes at which it is learned again."""
        self.budgets: tuple[DisruptionBudget, ...] = ()
        """Disruption budgets that preemption respects."""
        self._log: list[int] = []
        self._trimmed = 0
        self.last_freed = 0
        """The number of changes up to the last one that may have freed capacity."""
        self.memo: dict[object, object] = {}
        """Caches of other modules about this state; each module refreshes its own."""
        self._nodes: dict[str, NodeState] = {}
        self._rows: dict[str, int] = {}
        self._names: list[str] = []
        self._vacant: list[int] = []
        self._placements: dict[str, Placement] = {}
        self._on: dict[int, dict[str, Placement]] = {}
        self._undo: list[Callable[[], object]] = []
        self._marks: list[int] = []
        self._scale: LargestNode | None = None
        self._measured: dict[tuple[str, str], tuple[int, float]] = {}
        """By node and accelerator: measured free memory, and the busy part of the time."""
        for node in nodes:
            self.put(node)
        for placement in placements:
            self.bind(placement, strict=False)

    # Nodes

    def put(self, node: NodeState) -> None:
        """Add a node, or update it; its placements stay."""
        before = self._nodes.get(node.name)
        row = self._rows[node.name] if before is not None else self._allocate_row(node)
        if len(node.devices) > self.columns.width:
            self.columns.grow(0, len(node.devices))
        self._nodes[node.name], self._scale = node, None
        self.columns.write_node(row, node)
        for placement in self._on[row].values():
            self._take(row, placement, 1)
        if self._measured:
            for device in node.devices:
                self._write_measured((node.name, device.id))
        self._changed(row, (lambda: self.put(before)) if before else (lambda: self.remove(node.name)))

    def remove(self, name: str) -> tuple[Placement, ...]:
        """Remove a node with its placements, and return these."""
        row, node = self._rows[name], self._nodes[name]
        removed = tuple(self._on[row].values())
        for placement in removed:
            self.release(placement.request.id)
        del self._rows[name], self._nodes[name], self._on[row]
        self._names[row], self._scale = "", None
        self._vacant.append(row)
        self.columns.clear(row)
        self._changed(row, lambda: self.put(node))
        return removed

    def node(self, name: str) -> NodeState | None:
        """Return a node by its name."""
        return self._nodes.get(name)

    def nodes(self) -> tuple[NodeState, ...]:
        """Return every node."""
        return tuple(self._nodes[name] for name in self._names if name)

    def row(self, name: str) -> int:
        """Return the row of a node."""
        return self._rows[name]

    def rows_of(self, names: Iterable[str]) -> Ints:
        """Return the rows of nodes; ABSENT for a node that the cluster does not have."""
        return np.array(list(map(self._rows.get, names, repeat(ABSENT))), np.int64)

    def name(self, row: int) -> str:
        """Return the name of the node of a row."""
        return self._names[row]

    @property
    def scale(self) -> LargestNode:
        """The largest node of the cluster."""
        if self._scale is None:
            cpu, width = self.columns.cpu_total, self.columns.width_total
            self._scale = LargestNode(int(cpu.max(initial=1)), int(width.max(initial=1)))
        return self._scale

    def device(self, row: int, column: int) -> DeviceState:
        """Return an accelerator of the node of a row."""
        return self._nodes[self._names[row]].devices[column]

    def device_named(self, row: int, name: str) -> DeviceState:
        """Return an accelerator of the node of a row by its id."""
        return next(device for device in self._nodes[self._names[row]].devices if device.id == name)

    @property
    def cells(self) -> int:
        """Cells of the accelerator columns: nodes times the most accelerators that a node has."""
        return len(self._rows) * self.columns.width

    def rows(self) -> Ints:
        """Return the rows of all nodes."""
        return np.flatnonzero(self.columns.alive)

    def free(self, name: str) -> NodeFree:
        """Return the free capacity of a node."""
        row, columns = self._rows[name], self.columns
        devices = tuple(
            DeviceFree(
                device.id,
                Bytes(int(columns.free_memory[row, at])),
                int(columns.free_compute[row, at]),
                int(columns.holders[row, at]),
                device.memory,
                bool(columns.soft[row, at]),
                Bytes(int(columns.measured[row, at])),
            )
            for at, device in enumerate(self._nodes[name].devices)
        )
        memory = Bytes(int(columns.memory[row]))
        return NodeFree(int(columns.cpu[row]), memory, int(columns.pods[row]), devices)

    # Placements

    def bind(self, placement: Placement, *, strict: bool = True) -> None:
        """Bind a placement; not strict: even without room, as real clusters may be over-committed."""
        request = placement.request
        if request.id in self._placements:
            raise AllocationRefusedError(
                f"{request.id} is already placed, on {self._placements[request.id].node}"
            )
        row = self._rows.get(placement.node)
        if row is None:
            raise AllocationRefusedError(f"{request.id}: there is no node {placement.node!r}")
        devices = self._nodes[placement.node].devices
        if strict and (deficit := deficit_for(self.columns, row, devices, placement)):
            raise AllocationRefusedError(f"{request.id}: {placement.node} {deficit}", "decide again")
        self._placements[request.id] = self._on[row][request.id] = placement
        self._take(row, placement, 1)
        self.pod_counts.add(request, row)
        self._changed(row, lambda: self.release(request.id), frees=False)
        if self._measured:
            self._spend_measured(placement)

    def release(self, identity: str) -> Placement:
        """Release a placement, and return it."""
        placement = self._placements.pop(identity)
        row = self._rows[placement.node]
        self._ended += 1
        del self._on[row][identity]
        self._take(row, placement, -1)
        self.pod_counts.remove(placement.request)
        self._changed(row, lambda: self.bind(placement, strict=False))
        return placement

    def rebook(
        self, identity: str, shares: tuple[DeviceShare, ...], request: Request | None = None
    ) -> Placement:
        """Change what a bound request holds, and return its new placement; more than there is is a fact too.

        `request`: the same request with what is known now, such as another need.
        """
        before = self._placements[identity]
        after = replace(before, shares=shares, request=request or before.request)
        row = self._rows[before.node]
        self._take(row, before, -1)
        self._placements[identity] = self._on[row][identity] = after
        self._take(row, after, 1)
        self._changed(row, lambda: self.rebook(identity, before.shares, before.request))
        return after

    def placement(self, identity: str) -> Placement | None:
        """Return the placement of a request."""
        return self._placements.get(identity)

    def placements(self) -> tuple[Placement, ...]:
        """Return all placements."""
        return tuple(self._placements.values())

    @property
    def turned_over(self) -> bool:
        """Whether more placements have ended than there are."""
        return self._ended > max(64, len(self._placements))

    def placed_on(self, row: int) -> tuple[Placement, ...]:
        """Return the placements on the node of a row."""
        return tuple(self._on[row].values())

    def limit_disruptions(self, budgets: Iterable[DisruptionBudget]) -> None:
        """Set the disruption budgets that preemption respects."""
        before, self.budgets = self.budgets, tuple(budgets)
        if self._marks:
            self._undo.append(lambda: self.limit_disruptions(before))

    # Measured use

    def set_measured_free(self, node: str, device: str, memory: Bytes | None) -> None:
        """Set the free memory that a published rule grants on an accelerator; None: it grants none.

        A grant holds for one placement: a binding there ends it, for it was measured before.
        """
        key = (node, device)
        self._set_measured(key, memory or 0, self._measured.get(key, (0, 0.0))[1])

    def set_measured_busy(self, node: str, device: str, busy: float | None) -> None:
        """Set the part of the time, summed over its holders, that an accelerator is busy; None: unknown."""
        key = (node, device)
        self._set_measured(key, self._measured.get(key, (0, 0.0))[0], busy or 0.0)

    def _set_measured(self, key: tuple[str, str], memory: int, busy: float) -> None:
        before = self._measured.get(key, (0, 0.0))
        if (memory, busy) == before:
            return
        self._measured[key] = memory, busy
        row = self._write_measured(key)
        if row is not None:
            self._changed(row, lambda: self._set_measured(key, *before))

    def _write_measured(self, key: tuple[str, str]) -> int | None:
        """Write what was measured of an accelerator into its columns, and return its row, if any."""
        name, device = key
        node = self._nodes.get(name)
        at = column_of(node.devices, device) if node else None
        if at is None:
            return None
        row = self._rows[name]
        self.columns.measured[row, at], self.columns.busy[row, at] = self._measured.get(key, (0, 0.0))
        return row

    def _spend_measured(self, placement: Placement) -> None:
        for share in placement.shares:
            self.set_measured_free(placement.node, share.device, None)

    # Changes

    @property
    def changes(self) -> int:
        """The number of changes so far."""
        return self._trimmed + len(self._log)

    def changed_since(self, changes: int) -> Ints | None:
        """Return the rows that changed since that number of changes; None: the log no longer has them."""
        start = changes - self._trimmed
        if start < 0:
            return None
        return np.array(list(dict.fromkeys(self._log[start:])), np.int64)

    # Undoing

    def checkpoint(self) -> int:
        """Start a checkpoint; end it with `rollback` or `commit`."""
        self._marks.append(len(self._undo))
        return len(self._marks)

    def rollback(self, mark: int) -> None:
        """Undo everything since a checkpoint."""
        length = self._marks[mark - 1]
        del self._marks[mark - 1 :]
        steps, self._undo[length:] = self._undo[length:], []
        marks, self._marks, ended = self._marks, [], self._ended  # a rollback is not itself logged for undo
        for step in reversed(steps):
            step()
        self._marks, self._ended = marks, ended

    def commit(self, mark: int) -> None:
        """End a checkpoint without undoing anything."""
        del self._marks[mark - 1 :]
        if not self._marks:
            self._undo.clear()

    # Inside

    def _allocate_row(self, node: NodeState) -> int:
        if not self._vacant:
            size = self.columns.size
            self.columns.grow(max(16, 2 * size), len(node.devices))
            self.pod_counts.grow(self.columns.size)
            self._names += [""] * (self.columns.size - size)
            self._vacant = list(range(self.columns.size - 1, size - 1, -1))
        row = self._vacant.pop()
        self._rows[node.name], self._names[row], self._on[row] = row, node.name, {}
        return row

    def _take(self, row: int, placement: Placement, sign: int) -> None:
        request, columns = placement.request, self.columns
        columns.room[row] -= (sign * request.cpu, sign * request.memory, sign)
        for key, amount in request.resources:
            columns.supply(key)[row] -= sign * amount
        if not placement.shares:
            return
        devices = self._nodes[placement.node].devices
        for share in placement.shares:
            at = column_of(devices, share.device)
            if at is not None:
                self._take_share(row, at, devices[at], share, sign)
                if request.slo is not None:
                    self._tolerate(row, at, devices[at])

    def _take_share(self, row: int, at: int, device: DeviceState, share: DeviceShare, sign: int) -> None:
        columns = self.columns
        whole = share.whole  # all of it as it is now, not as it was when it was bound
        columns.free_memory[row, at] -= sign * (device.memory if whole else share.memory)
        columns.free_compute[row, at] -= sign * (device.compute if whole else share.compute)
        columns.holders[row, at] += sign
        if share.soft:
            columns.soft[row, at] += sign
            if columns.soft[row, at] == (sign > 0):  # the first one, or none is left
                columns.free_memory[row, at] -= sign * headroom(device.memory)
        if device.unified and not share.whole:
            columns.memory[row] -= sign * share.memory
        columns.update_idle(row, at, device)

    def _tolerate(self, row: int, at: int, device: DeviceState) -> None:
        """Update the slowdown that every holder of an accelerator tolerates."""
        holders = (
            placement.request
            for placement in self._on[row].values()
            if any(share.device == device.id for share in placement.shares)
        )
        self.columns.tolerance[row, at] = tolerated_slowdown(holders, device.model)

    def _changed(self, row: int, undo: Callable[[], object], *, frees: bool = True) -> None:
        self._log.append(row)
        self.last_freed = self.changes if frees else self.last_freed
        if self._marks:
            self._undo.append(undo)
        if len(self._log) > max(MIN_LOG_LENGTH, 4 * self.columns.size):
            self._trimmed += len(self._log)
            self._log.clear()
