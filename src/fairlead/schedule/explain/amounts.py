"""Suggest amounts: how much less would fit, or how much more must be free."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from fairlead.placement import SuggestedChange
from fairlead.request import NO_BYTES, Request
from fairlead.schedule.explain.reasons import format_cpu
from fairlead.schedule.filter.compiled import CompiledRequest
from fairlead.schedule.filter.fit import feasible_rows, fits
from fairlead.schedule.state.cluster import EngineCluster
from fairlead.schedule.state.columns import Ints
from fairlead.units import Bytes, format_bytes

MEBI: Final = 1 << 20


def suggest_smaller_amounts(
    cluster: EngineCluster, request: Request, *, whole: bool
) -> Iterator[SuggestedChange]:
    """Yield for each amount the most that would fit if only that amount were smaller."""
    yield from _cpu(cluster, request, whole=whole)
    yield from _memory(cluster, request, whole=whole)
    if request.demand.count:
        yield from _device_memory(cluster, request, whole=whole)
        yield from _device_compute(cluster, request, whole=whole)
        yield from _fewer_devices(cluster, request, whole=whole)
        yield from _shared(cluster, request, whole=whole)


def _cpu(cluster: EngineCluster, request: Request, *, whole: bool) -> Iterator[SuggestedChange]:
    rows = _rows(cluster, replace(request, cpu=0), whole=whole)
    most = int(cluster.columns.cpu[rows].max(initial=-1))
    if 0 <= most < request.cpu:
        text = f"ask for {format_cpu(most)} instead of {format_cpu(request.cpu)}"
        yield SuggestedChange("cpu", text, most, 1 - most / request.cpu)


def _memory(cluster: EngineCluster, request: Request, *, whole: bool) -> Iterator[SuggestedChange]:
    rows = _rows(cluster, replace(request, memory=NO_BYTES), whole=whole)
    most = int(cluster.columns.memory[rows].max(initial=-1)) // MEBI * MEBI
    if 0 <= most < request.memory and fits(cluster, replace(request, memory=Bytes(most)), whole=whole):
        text = f"ask for {format_bytes(most)} of the node's memory instead of {format_bytes(request.memory)}"
        yield SuggestedChange("memory", text, most, 1 - most / request.memory)


def _device_memory(cluster: EngineCluster, request: Request, *, whole: bool) -> Iterator[SuggestedChange]:
    """Yield a smaller share of each accelerator's memory, and where to free memory instead."""
    need = request.demand.memory
    if need is None or whole:
        return
    least = replace(request, demand=replace(request.demand, memory=Bytes(1)))
    compiled = CompiledRequest(cluster, least)
    rows, free = feasible_rows(compiled, least, cluster.rows())
    if not len(rows):
        return
    available = _available_memory(compiled, rows)
    # `count` accelerators must have it: of the `count` with the most, the one with the least.
    kth = np.sort(np.where(free, available, -1), axis=1)[:, -compiled.count]
    most = int(kth.max()) // MEBI * MEBI
    if 0 < most < need:
        text = f"ask for {format_bytes(most)} of the accelerator's memory instead of {format_bytes(need)}"
        yield SuggestedChange("demand.memory", text, most, 1 - most / need)
    if compiled.count == 1 and most < need:
        yield _free_elsewhere(cluster, rows, np.where(free, available, -1), need)


def _free_elsewhere(cluster: EngineCluster, rows: Ints, available: Ints, need: int) -> SuggestedChange:
    at, column = np.unravel_index(int(available.argmax()), available.shape)
    missing = need - int(available[at, column])
    row = int(rows[at])
    device = cluster.device(row, int(column))
    if device.memory < need:
        text = f"add an accelerator with {format_bytes(need)}: all that are suitable are too small"
        return SuggestedChange("cluster", text, need, 1.0)
    text = f"free {format_bytes(missing)} on {device.id} of {cluster.name(row)}"
    # Freeing memory is harder than asking for that much less.
    return SuggestedChange("cluster", text, missing, missing / need + 0.1)


def _available_memory(compiled: CompiledRequest, rows: Ints) -> Ints:
    columns = compiled.cluster.columns
    node = np.maximum(columns.memory[rows] - compiled.request.memory, 0) // compiled.count
    free = columns.free_memory[rows]
    unified = compiled.node_memory[columns.kind[rows]] > 0
    available: Ints = np.where(unified, np.minimum(free, node[:, None]), free)
    return available


def _device_compute(cluster: EngineCluster, request: Request, *, whole: bool) -> Iterator[SuggestedChange]:
    need = request.demand.compute
    if need is None or whole:
        return
    least = replace(request, demand=replace(request.demand, compute=1))
    compiled = CompiledRequest(cluster, least)
    rows, free = feasible_rows(compiled, least, cluster.rows())
    if not len(rows):
        return
    most = int(
        np.sort(np.where(free, cluster.columns.free_compute[rows], -1), axis=1)[:, -compiled.count].max()
    )
    if 0 < most < need:
        text = f"ask for {most / 10:g} % of the accelerator's compute instead of {need / 10:g} %"
        yield SuggestedChange("demand.compute", text, most, 1 - most / need)


def _fewer_devices(cluster: EngineCluster, request: Request, *, whole: bool) -> Iterator[SuggestedChange]:
    count = request.demand.count
    if count < 2:
        return
    one = replace(request, demand=replace(request.demand, count=1))
    _, free = feasible_rows(CompiledRequest(cluster, one, whole=whole), one, cluster.rows())
    most = int(free.sum(axis=1).max(initial=0))
    if 0 < most < count:
        yield SuggestedChange(
            "demand.count", f"ask for {most} instead of {count} of them", most, 1 - most / count
        )


def _shared(cluster: EngineCluster, request: Request, *, whole: bool) -> Iterator[SuggestedChange]:
    """Yield the largest available share instead of whole accelerators."""
    if whole or not request.whole:
        return
    least = replace(request, demand=replace(request.demand, memory=Bytes(1)))
    compiled = CompiledRequest(cluster, least)
    rows, free = feasible_rows(compiled, least, cluster.rows())
    if len(rows):
        kth = np.sort(np.where(free, _available_memory(compiled, rows), -1), axis=1)[:, -compiled.count]
        most = int(kth.max()) // MEBI * MEBI
        if most > 0:
            yield SuggestedChange(
                "demand.memory", f"share: ask for {format_bytes(most)} of one's memory", most, 0.4
            )


def _rows(cluster: EngineCluster, request: Request, *, whole: bool) -> Ints:
    return feasible_rows(CompiledRequest(cluster, request, whole=whole), request, cluster.rows())[0]
