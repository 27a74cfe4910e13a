"""Fragments: idle capacity of a node that the expected requests cannot use.

After Weng et al., "Beware of Fragmentation" (USENIX ATC 2023): for each kind of request, the idle part of a
node that it could not use; then the mean over the kinds.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.placement import DeviceState
from fairlead.request import WHOLE, Demand, Request
from fairlead.schedule.filter.compiled import objection
from fairlead.schedule.score.candidates import Candidates
from fairlead.schedule.score.mix import DemandMix, RequestKind
from fairlead.schedule.state.cluster import EngineCluster
from fairlead.schedule.state.columns import Floats, Ints, Mask
from fairlead.units import Bytes


class FragmentMeasure(NamedTuple):
    """How much it counts that CPU and memory run out as requests arrive, beside that one more has enough."""

    cpu: float
    memory: float
    """With a weight of 1, a node's idle accelerators are worth no more than its CPU or memory lasts for."""


PUBLISHED: Final = FragmentMeasure(0.0, 0.0)
"""As in the paper: CPU suffices for one more request or not, and memory does not count."""
SPENT: Final = FragmentMeasure(0.25, 0.0)
"""Best where CPU and memory are ample: more weight saves CPU at the cost of fragments."""
LASTING: Final = FragmentMeasure(1.0, 1.0)
"""Best where they are scarce."""
CHUNK: Final = 512
"""Rows that are counted at once: more would not fit the processor's cache."""

Counts = NDArray[np.int16]


class RequestKinds:
    """The expected kinds of request as arrays, for the kinds of accelerator that a cluster has.

    Kinds that differ only in the accelerators that they allow are merged: their frequency then depends on
    the accelerator. Traces with typed requests have hundreds of kinds, and a few dozen merged ones.
    """

    def __init__(self, mix: DemandMix, devices: tuple[DeviceState, ...]) -> None:
        self.mix, self.devices = mix, devices
        alike: dict[tuple[int, Demand], list[tuple[RequestKind, float]]] = {}
        for kind, weight in mix.kinds:
            alike.setdefault((kind.cpu, _untyped(kind.demand)), []).append((kind, weight))
        kinds = [_merged(group, demand) for (_, demand), group in alike.items()]
        self.cpu: Floats = np.array([kind.cpu for kind in kinds], np.float64)
        self.memory: Floats = np.array([kind.memory for kind in kinds], np.float64)
        self.least: Floats = np.array([kind.least for kind in kinds], np.float64)
        self.count: Counts = np.array([min(kind.demand.count, 1 << 14) for kind in kinds], np.int16)
        self.compute: Floats = np.array([_compute(kind.demand) for kind in kinds], np.float64)
        self.device_memory: Ints = np.array([kind.demand.memory or 0 for kind in kinds], np.int64)
        self.by_memory = bool(self.device_memory.any())
        table = [[_weight(device, group) for group in alike.values()] for device in devices]
        self.weight: Floats = np.array([*table, [0.0] * len(kinds)])
        """By kind of accelerator, the last being none: the frequency of requests that may run on it."""
        self.kind_matters = any(row != table[0] for row in table)
        """Whether the frequencies depend on the kind of accelerator."""
        sizes = [[_size(device, kind.demand) for kind in kinds] for device in devices]
        taken = np.array([*sizes, [0.0] * len(kinds)]) * self.weight
        self.per_cpu: Floats = taken / np.maximum(self.cpu, 1)
        """What such requests take of such accelerators, in thousandths per thousandth of a core."""
        self.per_memory: Floats = taken / np.maximum(self.memory, 1)
        """The same for each byte of the node's memory."""

    def weights(self, kind: NDArray[np.int32]) -> Floats:
        """Return the frequency of each kind of request that may run on these accelerators."""
        return self.weight[kind] if self.kind_matters else self.weight[0]

    def fit(self, idle: Floats, memory: Ints) -> Mask:
        """Return which accelerators have room for a share of each kind of request."""
        fits: Mask = idle[..., None] >= self.compute
        if self.by_memory:
            fits &= memory[..., None] >= self.device_memory
        return fits


class Fragments:
    """Fragments of every row, refreshed on demand."""

    def __init__(self, cluster: EngineCluster, rule: FragmentMeasure) -> None:
        self.cluster, self.rule = cluster, rule
        self.kinds = RequestKinds(cluster.mix, tuple(cluster.columns.kinds))
        self._seen = -1
        shape = (cluster.columns.size, len(self.kinds.cpu))
        self.fits = np.zeros((*cluster.columns.kind.shape, len(self.kinds.cpu)), np.bool_)
        """By row, accelerator and kind of request: whether the accelerator could take a share."""
        self.count: Counts = np.zeros(shape, np.int16)
        """By row and kind of request: the number of accelerators that could take a share."""
        self.usable = np.zeros(shape)
        """The free capacity of these, times the frequency of such requests."""
        self.amount: Floats = np.zeros(cluster.columns.size)

    @property
    def current(self) -> bool:
        """Whether the tables still match the cluster's demand mix, kinds of accelerator and size."""
        kinds, columns = self.kinds, self.cluster.columns
        same = len(kinds.devices) == len(columns.kinds) and self.fits.shape[:2] == columns.kind.shape
        return same and kinds.mix is self.cluster.mix

    def refresh(self) -> None:
        """Recount the rows that have changed."""
        if self._seen == self.cluster.changes:
            return
        rows = self.cluster.changed_since(self._seen) if self._seen >= 0 else None
        rows = np.arange(self.cluster.columns.size) if rows is None else rows
        for start in range(0, len(rows), CHUNK):
            self._count(rows[start : start + CHUNK])
        self._seen = self.cluster.changes

    def _count(self, rows: Ints) -> None:
        columns = self.cluster.columns
        kind, idle = columns.kind.take(rows, axis=0), columns.idle.take(rows, axis=0)
        fits = self.kinds.fit(idle, columns.free_memory.take(rows, axis=0))
        count = fits.sum(axis=1, dtype=np.int16)
        usable = np.add.reduce(fits * idle[:, :, None] * self.kinds.weights(kind), axis=1)
        self.fits[rows], self.count[rows], self.usable[rows] = fits, count, usable
        left = (columns.cpu[rows], columns.memory[rows], columns.idle_total[rows])
        self.amount[rows] = self.measure(rows, count, usable, left)

    def measure(self, rows: Ints, count: Counts, usable: Floats, left: tuple[Ints, Ints, Floats]) -> Floats:
        """Return the fragments of rows with this CPU, memory and accelerator capacity `left`."""
        kinds, (cpu, memory, idle) = self.kinds, left
        hosts = (count >= kinds.count) & (cpu[:, None] >= kinds.cpu)
        if self.rule is not PUBLISHED:
            hosts &= memory[:, None] >= kinds.least
            usable = self._lasting(rows, usable, cpu, memory)
        used: Floats = np.einsum("ij,ij->i", usable, hosts)
        return idle - used

    def _lasting(self, rows: Ints, usable: Floats, cpu: Ints, memory: Ints) -> Floats:
        """Return the usable capacity without what CPU and memory do not last for, by their weights."""
        kinds, kind = self.kinds, self.cluster.columns.kind[rows, 0]
        supported = cpu[:, None] * kinds.per_cpu.take(kind, axis=0)
        usable = usable - self.rule.cpu * np.maximum(usable - supported, 0)
        if self.rule.memory:
            supported = memory[:, None] * kinds.per_memory.take(kind, axis=0)
            usable = usable - self.rule.memory * np.maximum(usable - supported, 0)
        return usable

    def after(self, places: Candidates) -> Floats:
        """Return the fragments that the node of each place would have after the placement."""
        row = places.row
        count, usable = self.count.take(row, axis=0), self.usable.take(row, axis=0)
        cells = self.fits.reshape(-1, self.fits.shape[-1])
        for at in range(places.chosen.shape[1]):
            left = places.idle_left[:, at]
            before = cells.take(row * self.fits.shape[1] + places.chosen[:, at], axis=0)
            after = self.kinds.fit(left, places.device_memory_left[:, at])
            count -= before ^ after  # a placement never makes a kind fit that did not fit before
            lost = before * places.idle[:, at : at + 1] - after * left[:, None]
            usable -= lost * self.kinds.weights(places.kind[:, at])
        return self.measure(row, count, usable, (places.cpu_left, places.memory_left, places.idle_left_total))


def added_fragments(places: Candidates, rule: FragmentMeasure) -> Floats:
    """Return the fragments that each place would add to its node, in thousandths of an accelerator."""
    cluster = places.compiled.cluster
    key = ("fragments", rule)
    table = cluster.memo.get(key)
    if not isinstance(table, Fragments) or not table.current:
        table = cluster.memo[key] = Fragments(cluster, rule)
    table.refresh()
    # Sums in another order differ in the last digits, and would fall into another step of the score.
    return np.round(table.after(places) - table.amount[places.row], 6)


def _merged(group: Sequence[tuple[RequestKind, float]], demand: Demand) -> RequestKind:
    """Return kinds that differ in memory and in the accelerators that they allow as one."""
    total = sum(weight for _, weight in group)
    memory = sum(kind.memory * weight for kind, weight in group) / total if total else 0.0
    least = min(kind.least for kind, _ in group)
    return RequestKind(group[0][0].cpu, Bytes(round(memory)), demand, least)


def _compute(demand: Demand) -> int:
    if demand.compute is None and demand.memory is None:
        return WHOLE
    return demand.compute or 1


def _untyped(demand: Demand) -> Demand:
    return replace(demand, models=(), excluded=(), vendors=(), precision="")


def _weight(device: DeviceState, kinds: Iterable[tuple[RequestKind, float]]) -> float:
    """Return the summed frequency of the kinds that may run on an accelerator."""
    return sum(weight for kind, weight in kinds if _takes(device, kind.demand))


def _takes(device: DeviceState, demand: Demand) -> bool:
    return demand.count > 0 and objection(Request("", demand=demand), device) is None


def _size(device: DeviceState, demand: Demand) -> float:
    by_memory = WHOLE * (demand.memory or 0) / device.memory if device.memory else 0.0
    return demand.count * max(by_memory, float(_compute(demand)))
