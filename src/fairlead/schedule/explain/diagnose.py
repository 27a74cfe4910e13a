"""Diagnose a refusal: count each accelerator, or node, under the first filter that rejects it."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from fairlead.placement import Decision, Reason, Rejection
from fairlead.request import Request
from fairlead.schedule.explain.reasons import device_rejections, node_rejections
from fairlead.schedule.filter.compiled import CompiledRequest
from fairlead.schedule.filter.filters import DEVICE_FILTERS, NODE_FILTERS
from fairlead.schedule.filter.inter_pod import INTER_POD_FILTERS
from fairlead.schedule.score.policies import Policy
from fairlead.schedule.state.cluster import EngineCluster
from fairlead.schedule.state.columns import Ints, Mask

_ORDER: Final = tuple(Reason)
"""The order of reasons with equal counts."""


def reject_invalid(request: Request, policy: str, errors: Sequence[str]) -> Decision:
    """Return the refusal of an invalid request."""
    return Decision(request, policy, rejections=tuple(Rejection(Reason.INVALID, text) for text in errors))


def diagnose(cluster: EngineCluster, request: Request, policy: Policy) -> Decision:
    """Return the refusal of a request that fits nowhere, with every reason and its amounts."""
    compiled = CompiledRequest(cluster, request, policy.rules)
    rows = cluster.rows()
    present: Mask = np.ones((len(rows), 1), np.bool_)
    if compiled.count:
        present = cluster.columns.kind[rows] >= 0
    rejections = sorted(diagnose_rows(compiled, rows, present.copy()), key=lambda rejection: -rejection.count)
    among = int(present.sum())
    if not among:
        missing = "no accelerator" if compiled.count else "no node"
        rejections = [Rejection(Reason.NO_DEVICE, f"there is {missing} in the cluster")]
    return Decision(request, policy.name, rejections=tuple(rejections), among=among)


def diagnose_rows(compiled: CompiledRequest, rows: Ints, left: Mask) -> Iterator[Rejection]:
    """Yield rejections; `left` marks what no filter has rejected so far, and shrinks with every step."""
    for reason, node_filter in NODE_FILTERS.items():
        out = left & ~np.atleast_1d(node_filter(compiled, rows))[:, None]
        yield from node_rejections(compiled, reason, rows, out)
        left &= ~out
    if compiled.count:
        yield from _devices(compiled, rows, left)
    for reason, inter_pod in INTER_POD_FILTERS.items():
        out = left & ~inter_pod(compiled, compiled.request)[rows][:, None]
        yield from node_rejections(compiled, reason, rows, out)
        left &= ~out


def _devices(compiled: CompiledRequest, rows: Ints, left: Mask) -> Iterator[Rejection]:
    kind = compiled.cluster.columns.kind[rows]
    objections = {rejected for rejected in compiled.objections if rejected is not None}
    for objection in sorted(objections, key=lambda rejected: (_ORDER.index(rejected[0]), rejected[1])):
        ids = [at for at, rejected in enumerate(compiled.objections) if rejected == objection]
        out = left & np.isin(kind, ids)
        yield from device_rejections(compiled, objection[0], rows, out, objection[1])
        left &= ~out
    for reason, device_filter in DEVICE_FILTERS.items():
        out = left & ~device_filter(compiled, rows)
        if reason is Reason.DEVICE_MEMORY and (compiled.any_soft or compiled.cluster.columns.soft.any()):
            bound = out & _only_headroom_missing(compiled, rows)
            yield from device_rejections(compiled, Reason.MEMORY_BOUND, rows, bound)
            left &= ~bound
            out &= ~bound
        yield from device_rejections(compiled, reason, rows, out)
        left &= ~out
    free = left.sum(axis=1)
    out = left & (free < compiled.count)[:, None]
    if out.any():
        most = int(free[out.any(axis=1)].max())
        text = f"are on nodes with too few that suffice (need {compiled.count}, most {most})"
        nodes = int(out.any(axis=1).sum())
        yield Rejection(Reason.DEVICES, text, int(out.sum()), nodes, compiled.count, most)
    left &= ~out


def _only_headroom_missing(compiled: CompiledRequest, rows: Ints) -> Mask:
    """Return the accelerators with enough free memory, if no headroom had to stay free beside soft pods."""
    columns, free = compiled.cluster.columns, compiled.free_memory(rows)
    kind = columns.kind[rows]
    soft = (columns.soft[rows] > 0) | (compiled.headroom[kind] > 0)
    least = compiled.least_memory[kind]
    missing: Mask = (free < least) & (free + compiled.headrooms[kind] * soft >= least)
    return missing
