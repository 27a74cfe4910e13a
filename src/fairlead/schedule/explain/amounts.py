"""Suggest amounts: how much less would fit, or how much more must be free."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from fairlead.need import Need
from fairlead.placement import SuggestedChange
from fairlead.request import NO_BYTES, Request
from fairlead.schedule.explain.reasons import format_cpu
from fairlead.schedule.filter.compiled import CompiledRequest
from fairlead.schedule.filter.fit import feasible_rows, fits
from fairlead.schedule.filter.rules import SharingRules
from fairlead.schedule.state.cluster import EngineCluster
from fairlead.schedule.state.columns import Ints
from fairlead.units import Bytes, format_bytes

MEBI: Final = 1 << 20


def suggest_smaller_amounts(
    cluster: EngineCluster, request: Request, rules: SharingRules
) -> Iterator[SuggestedChange]:
    """Yield for each amount the most that would fit if only that amount were smaller."""
    yield from _cpu(cluster, request, rules)
    yield from _memory(cluster, request, rules)
    if request.demand.count:
        yield from _device_memory(cluster, request, rules)
        yield from _device_compute(cluster, request, rules)
        yield from _fewer_devices(cluster, request, rules)
        yield from _shared(cluster, request, rules)


def _cpu(cluster: EngineCluster, request: Request, rules: SharingRules) -> Iterator[SuggestedChange]:
    rows = _rows(cluster, replace(request, cpu=0), rules)
    most = int(cluster.columns.cpu[rows].max(initial=-1))
    if 0 <= most < request.cpu:
        text = f"ask for {format_cpu(most)} instead of {format_cpu(request.cpu)}"
        yield SuggestedChange("cpu", text, most, 1 - most / request.cpu)


def _memory(cluster: EngineCluster, request: Request, rules: SharingRules) -> Iterator[SuggestedChange]:
    rows = _rows(cluster, replace(request, memory=NO_BYTES), rules)
    most = int(cluster.columns.memory[rows].max(initial=-1)) // MEBI * MEBI
    if 0 <= most < request.memory and fits(cluster, replace(request, memory=Bytes(most)), rules):
        text = f"ask for {format_bytes(most)} of the node's memory instead of {format_bytes(request.memory)}"
        yield SuggestedChange("memory", text, most, 1 - most / request.memory)


def _device_memory(
    cluster: EngineCluster, request: Request, rules: SharingRules
) -> Iterator[SuggestedChange]:
    """Yield a smaller share of each accelerator's memory, and where to free memory instead."""
    need = request.demand.memory
    if request.need is not None:
        yield from _memory_limit(cluster, request, request.need, rules)
        return
    if need is None or rules.whole:
        return
    least = replace(request, demand=replace(request.demand, memory=Bytes(1)))
    rows, available = _available_memory(cluster, least, rules)
    if not len(rows):
        return
    most = _most_for_all(available, request.demand.count)
    if 0 < most < need:
        text = f"ask for {format_bytes(most)} of the accelerator's memory instead of {format_bytes(need)}"
        yield SuggestedChange("demand.memory", text, most, 1 - most / need)
    if request.demand.count == 1 and most < need:
        yield _free_elsewhere(cluster, rows, available, need)


def _memory_limit(
    cluster: EngineCluster, request: Request, need: Need, rules: SharingRules
) -> Iterator[SuggestedChange]:
    """Yield the limit with which a request fits: a pod that cannot exceed it needs no headroom."""
    rows, available = _available_memory(cluster, replace(request, need=Need.fixed(Bytes(1))), rules)
    limit = min(_most_for_all(available, request.demand.count), need.peak) if len(rows) else 0
    if limit > 0 and not request.whole:
        peak = format_bytes(need.peak)
        text = f"limit it to {format_bytes(limit)} of the accelerator's memory (its peak is {peak})"
        yield SuggestedChange("demand.memory", text, limit, 1 - limit / need.peak)


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


def _available_memory(cluster: EngineCluster, least: Request, rules: SharingRules) -> tuple[Ints, Ints]:
    """Return the rows that fit a request, and the free memory of their accelerators; -1: barred."""
    compiled, columns = CompiledRequest(cluster, least, rules), cluster.columns
    rows, fitting = feasible_rows(compiled, least, cluster.rows())
    node = np.maximum(columns.memory[rows] - least.memory, 0) // max(compiled.count, 1)
    free = compiled.free_memory(rows)
    unified = compiled.node_memory[columns.kind[rows]] > 0
    free = np.where(unified, np.minimum(free, node[:, None]), free)
    return rows, np.where(fitting, free, -1) if len(rows) else free


def _most_for_all(available: Ints, count: int) -> int:
    """Return what some node has on as many accelerators: of the `count` with the most, the least."""
    return int(np.sort(available, axis=1)[:, -count].max()) // MEBI * MEBI


def _device_compute(
    cluster: EngineCluster, request: Request, rules: SharingRules
) -> Iterator[SuggestedChange]:
    need = request.demand.compute
    if need is None or rules.whole:
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


def _fewer_devices(
    cluster: EngineCluster, request: Request, rules: SharingRules
) -> Iterator[SuggestedChange]:
    count = request.demand.count
    if count < 2:
        return
    one = replace(request, demand=replace(request.demand, count=1))
    _, free = feasible_rows(CompiledRequest(cluster, one, rules), one, cluster.rows())
    most = int(free.sum(axis=1).max(initial=0))
    if 0 < most < count:
        yield SuggestedChange(
            "demand.count", f"ask for {most} instead of {count} of them", most, 1 - most / count
        )


def _shared(cluster: EngineCluster, request: Request, rules: SharingRules) -> Iterator[SuggestedChange]:
    """Yield the largest available share instead of whole accelerators."""
    if rules.whole or not request.whole:
        return
    least = replace(request, demand=replace(request.demand, memory=Bytes(1)), need=None)
    rows, available = _available_memory(cluster, least, rules)
    if len(rows):
        most = _most_for_all(available, request.demand.count)
        if most > 0:
            yield SuggestedChange(
                "demand.memory", f"share: ask for {format_bytes(most)} of one's memory", most, 0.4
            )


def _rows(cluster: EngineCluster, request: Request, rules: SharingRules) -> Ints:
    return feasible_rows(CompiledRequest(cluster, request, rules), request, cluster.rows())[0]
