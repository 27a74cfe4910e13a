"""A cluster as arrays: a row for each node, and in each row a column for each accelerator."""

from collections import Counter
from collections.abc import Iterable
from math import inf
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fairlead.placement import DeviceState, NodeState
from fairlead.request import WHOLE, Taint

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
HOSTNAME: Final = "kubernetes.io/hostname"
_ROW: Final = ("alive", "unschedulable", "taints", "idle_total", "cpu_total", "width_total")
_CELL: Final = (
    "kind", "free_memory", "free_compute", "holders", "idle", "soft", "measured", "busy", "tolerance",
)  # fmt: skip
UNSTATED: Final = {"ephemeral-storage": 1 << 60}
"""Resources that a node has although it does not report them, with the amounts assumed."""
_EMPTY: Final = {"kind": -1, "taints": 0, "tolerance": inf}


class Columns:
    """Free capacity by node and by accelerator; rows and columns grow with the cluster."""

    def __init__(self) -> None:
        self.alive: Mask = np.zeros(0, np.bool_)
        self.room: Ints = np.zeros((0, 3), np.int64)
        """Free CPU, memory and pods side by side: most filters test all three."""
        self.unschedulable: Mask = np.zeros(0, np.bool_)
        self.taints: NDArray[np.int32] = np.zeros(0, np.int32)
        """Index into `taint_sets`."""
        self.idle_total: Floats = np.zeros(0)
        self.cpu_total: Ints = np.zeros(0, np.int64)
        self.width_total: Ints = np.zeros(0, np.int64)
        """The number of accelerators of the node."""
        self.kind: NDArray[np.int32] = np.zeros((0, 1), np.int32)
        """Index into `kinds`; -1: no accelerator in this column."""
        self.free_memory: Ints = np.zeros((0, 1), np.int64)
        """What any request may take; beside a soft holder, without the headroom."""
        self.free_compute: Ints = np.zeros((0, 1), np.int64)
        self.holders: NDArray[np.int32] = np.zeros((0, 1), np.int32)
        self.idle: Floats = np.zeros((0, 1))
        """Free capacity in thousandths of the accelerator."""
        self.soft: NDArray[np.int32] = np.zeros((0, 1), np.int32)
        """Holders that may hold more than they count for."""
        self.measured: Ints = np.zeros((0, 1), np.int64)
        """Free memory that a published rule grants by measured use; 0: none."""
        self.busy: Floats = np.zeros((0, 1))
        """The measured busy part of the time, summed over the holders."""
        self.tolerance: Floats = np.zeros((0, 1))
        """The largest slowdown that every holder tolerates; infinite without an SLO."""
        self.resources: dict[str, Ints] = {}
        self.labels: dict[str, NDArray[np.int32]] = {}
        """By key: index into `values`; -1: no such label."""
        self.values: dict[str, int] = {}
        self.taint_sets: dict[tuple[Taint, ...], int] = {(): 0}
        self.kinds: dict[DeviceState, int] = {}
        """Accelerators without their ids; kinds that no node has any more keep their index."""
        self._number: Counter[int] = Counter()
        self._present: tuple[int, ...] | None = ()
        self._sizes: tuple[int, ...] = ()
        self.cordoned = 0
        """The number of cordoned nodes: mostly 0, and then the filter is skipped."""

    @property
    def cpu(self) -> Ints:
        """Free CPU, in thousandths of a core."""
        return self.room[:, 0]

    @property
    def memory(self) -> Ints:
        """Free memory."""
        return self.room[:, 1]

    @property
    def pods(self) -> Ints:
        """Pods that the node can still take."""
        return self.room[:, 2]

    @property
    def size(self) -> int:
        """The number of rows, used or not."""
        return len(self.alive)

    @property
    def width(self) -> int:
        """The number of accelerator columns."""
        return int(self.kind.shape[1])

    @property
    def present(self) -> tuple[int, ...]:
        """The kinds of accelerator that at least one node has."""
        if self._present is None:
            self._present = tuple(sorted(kind for kind, number in self._number.items() if number))
            kinds = list(self.kinds)
            self._sizes = tuple(sorted({kinds[kind].memory for kind in self._present}))
        return self._present

    @property
    def sizes(self) -> tuple[int, ...]:
        """The memory sizes of these kinds, smallest first."""
        return self._sizes if self.present else ()

    def grow(self, rows: int, width: int) -> None:
        """Grow to that many rows and accelerator columns."""
        rows, width = max(rows, self.size), max(width, self.width)
        for name in _ROW:
            setattr(self, name, _grown(getattr(self, name), (rows,), _EMPTY.get(name, 0)))
        for name in _CELL:
            setattr(self, name, _grown(getattr(self, name), (rows, width), _EMPTY.get(name, 0)))
        self.room = _grown(self.room, (rows, 3), 0)
        self.resources = {
            key: _grown(column, (rows,), UNSTATED.get(key, 0)) for key, column in self.resources.items()
        }
        self.labels = {key: _grown(column, (rows,), -1) for key, column in self.labels.items()}

    def write_node(self, row: int, node: NodeState) -> None:
        """Write a node into its row, with nothing allocated."""
        self.clear(row)
        self.alive[row] = True
        self.room[row] = (node.cpu, node.memory, node.pods)
        self.cpu_total[row], self.width_total[row] = node.cpu, len(node.devices)
        self.unschedulable[row] = node.unschedulable
        self.cordoned += node.unschedulable
        taints = tuple(sorted(node.taints, key=str))
        self.taints[row] = self.taint_sets.setdefault(taints, len(self.taint_sets))
        for key, amount in node.resources.items():
            self.supply(key)[row] = amount
        for key, value in {HOSTNAME: node.name, **node.labels}.items():
            self._column(self.labels, key, -1, np.int32)[row] = self.values.setdefault(
                value, len(self.values)
            )
        for column, device in enumerate(node.devices):
            self.kind[row, column] = kind = self.kinds.setdefault(kind_of(device), len(self.kinds))
            self._number[kind] += 1
            self.free_memory[row, column] = device.memory
            self.free_compute[row, column] = device.compute
            self.update_idle(row, column, device)

    def clear(self, row: int) -> None:
        """Empty a row."""
        self._number.subtract(self.kind[row][self.kind[row] >= 0].tolist())
        self._present = None
        self.cordoned -= int(self.unschedulable[row])
        for name in (*_ROW, *_CELL, "room"):
            getattr(self, name)[row] = _EMPTY.get(name, 0)
        for key, column in self.resources.items():
            column[row] = UNSTATED.get(key, 0)
        for labels in self.labels.values():
            labels[row] = -1

    def update_idle(self, row: int, column: int, device: DeviceState) -> None:
        """Update the free capacity of one accelerator."""
        idle = idle_of(
            device,
            int(self.free_memory[row, column]),
            int(self.free_compute[row, column]),
            int(self.holders[row, column]),
        )
        self.idle_total[row] += idle - self.idle[row, column]
        self.idle[row, column] = idle

    def _column(self, columns: dict[str, NDArray[Any]], key: str, empty: int, kind: type) -> NDArray[Any]:
        if key not in columns:
            columns[key] = np.full(self.size, empty, kind)
        return columns[key]

    def supply(self, key: str) -> Ints:
        """Return the free amount of an extended resource by row; create the column on first use."""
        return self._column(self.resources, key, UNSTATED.get(key, 0), np.int64)

    def label(self, key: str, rows: Ints) -> NDArray[np.int32]:
        """Return the value index of a label for these rows; -1 where it is missing."""
        column = self.labels.get(key)
        return np.full(len(rows), -1, np.int32) if column is None else column[rows]

    def value_ids(self, values: Iterable[str]) -> list[int]:
        """Return the indexes of the values that some node has."""
        return [self.values[value] for value in values if value in self.values]

    def resource(self, key: str, rows: Ints) -> Ints:
        """Return the free amount of an extended resource in these rows."""
        column = self.resources.get(key)
        return np.full(len(rows), UNSTATED.get(key, 0), np.int64) if column is None else column[rows]


def kind_of(device: DeviceState) -> DeviceState:
    """Return the kind of an accelerator: the accelerator without its id."""
    return DeviceState(
        "",
        device.model,
        device.vendor,
        device.memory,
        device.compute,
        device.healthy,
        device.unified,
        device.shareable,
        device.precisions,
        device.offered,
    )


def idle_of(device: DeviceState, memory: int, compute: int, holders: int) -> int:
    """Return the free capacity of an accelerator, in thousandths of it.

    The scarcer of memory and compute decides: neither is useful without the other.
    """
    if not device.healthy or (holders and not device.shareable):
        return 0
    free = min(compute, WHOLE)
    if device.memory:
        free = min(free, memory * WHOLE // device.memory)
    return max(free, 0)


def _grown(column: NDArray[Any], shape: tuple[int, ...], empty: float) -> NDArray[Any]:
    if column.shape == shape:
        return column
    grown = np.full(shape, empty, column.dtype)
    grown[tuple(slice(size) for size in column.shape)] = column
    return grown
