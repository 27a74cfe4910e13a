"""The candidates for a request: rows that pass every filter, and accelerators on each."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fairlead.request import WHOLE
from fairlead.schedule.filter.compiled import CompiledRequest
from fairlead.schedule.filter.filters import ALL, DEVICE_FILTERS, QUICK_FILTERS
from fairlead.schedule.state.columns import Floats, Ints, Mask

FEW: Final = 16
"""Up to this many rows, scoring every accelerator is cheaper than finding identical ones."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Candidate places, one for each entry of `row`; a node may have several. `*_left` is what remains."""

    compiled: CompiledRequest
    row: Ints
    chosen: NDArray[np.int64]
    """For each place, the columns of the accelerators taken: as many as the request asks for."""
    kind: NDArray[np.int32]
    """The kinds of these."""
    idle: Floats
    """The free capacity of each of them before."""
    idle_left: Floats
    device_memory_left: Ints
    idle_left_total: Floats
    """Of all accelerators of the node."""
    cpu_left: Ints
    memory_left: Ints


def make_candidates(compiled: CompiledRequest, row: Ints, chosen: NDArray[np.int64]) -> Candidates:
    """Return candidates with what each would leave."""
    columns = compiled.cluster.columns
    cpu, ram = columns.cpu[row] - compiled.request.cpu, columns.memory[row] - compiled.request.memory
    if not chosen.shape[1]:
        none = np.zeros(chosen.shape)
        return Candidates(
            compiled,
            row,
            chosen,
            none.astype(np.int32),
            none,
            none,
            chosen,
            columns.idle_total[row],
            cpu,
            ram,
        )
    at = row[:, None] * columns.width + chosen  # from flat columns: much faster than by row and column
    kind, idle = columns.kind.reshape(-1).take(at), columns.idle.reshape(-1).take(at)
    memory = np.zeros(chosen.shape, np.int64)
    if compiled.memory_known:
        memory = compiled.free_memory_at(at, kind) - compiled.memory[kind]
    compute = columns.free_compute.reshape(-1).take(at) - compiled.compute[kind]
    left = _idle_left(compiled, kind, compute, memory)
    total = columns.idle_total[row] - (idle - left).sum(axis=1)
    return Candidates(compiled, row, chosen, kind, idle, left, memory, total, cpu, ram)


def _idle_left(compiled: CompiledRequest, kind: NDArray[np.int32], compute: Ints, memory: Ints) -> Floats:
    """Return the free capacity of accelerators, as `columns.idle_of` does, for many at once."""
    left: Ints = np.minimum(compute, WHOLE)
    if compiled.memory_known:
        total = compiled.total_memory[kind]
        by_memory = memory * WHOLE // np.maximum(total, 1)
        left = np.where(total > 0, np.minimum(by_memory, left), left)
    return np.maximum(left, 0) * compiled.shareable[kind]


def filter_rows(compiled: CompiledRequest, rows: Ints) -> tuple[Ints, Mask]:
    """Return the rows that pass every filter but the inter-pod ones, and which accelerators can be taken."""
    passed = compiled.cluster.columns.alive[rows]
    for node_filter in QUICK_FILTERS:
        passing = node_filter(compiled, rows)
        if passing is not ALL:
            passed &= passing
    rows = rows[passed]
    if not compiled.count or not len(rows):
        return rows, np.zeros((len(rows), 0), np.bool_)
    kind = compiled.cluster.columns.kind.take(rows, axis=0)
    free: Mask = compiled.allowed[kind] if compiled.some_excluded else kind >= 0
    for device_filter in DEVICE_FILTERS.values():
        passing = device_filter(compiled, rows)
        if passing is not ALL:
            free &= passing
    enough = free.sum(axis=1) >= compiled.count
    return rows[enough], free[enough]


def candidates(compiled: CompiledRequest, rows: Ints) -> Candidates | None:
    """Return every candidate place of a request on these rows; None: there is none."""
    rows, free = filter_rows(compiled, rows)
    if not len(rows):
        return None
    if compiled.count == 1:
        if len(rows) > FEW:
            free &= ~_repeated(compiled, rows, free)
        at, column = np.divmod(np.flatnonzero(free), free.shape[1])
        return make_candidates(compiled, rows[at], column[:, None])
    if not compiled.count:
        return make_candidates(compiled, rows, np.zeros((len(rows), 0), np.int64))
    # Of several, take those with the least free capacity that still suffice: whole ones stay whole.
    idle = np.where(free, compiled.cluster.columns.idle[rows], np.inf)
    order = np.argsort(idle, axis=1, kind="stable")
    return make_candidates(compiled, rows, np.sort(order[:, : compiled.count], axis=1))


def _repeated(compiled: CompiledRequest, rows: Ints, free: Mask) -> Mask:
    """Return which accelerators are identical to the one before them, and so need no score."""
    columns = compiled.cluster.columns
    repeated = np.zeros_like(free)
    same = free[:, 1:] & free[:, :-1]
    cells_that_matter: list[NDArray[Any]] = [
        columns.kind,
        columns.free_memory,
        columns.free_compute,
        columns.holders,
    ]
    cells_that_matter += [columns.soft] if compiled.any_soft else []
    cells_that_matter += [columns.measured] if compiled.rules.measured else []
    for cells in cells_that_matter:
        here = cells[rows]
        same &= here[:, 1:] == here[:, :-1]
    repeated[:, 1:] = same
    return repeated
