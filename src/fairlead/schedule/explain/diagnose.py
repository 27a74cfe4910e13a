"""Why nowhere: each accelerator, or node, is counted under the first thing that speaks against it."""

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

_TOLD: Final = tuple(Reason)
"""The order in which reasons are told of as many each."""


def reject_invalid(request: Request, policy: str, wrong: Sequence[str]) -> Decision:
    """Refuse a request that cannot be meant."""
    return Decision(request, policy, rejections=tuple(Rejection(Reason.INVALID, text) for text in wrong))


def diagnose(cluster: EngineCluster, request: Request, policy: Policy) -> Decision:
    """Return the decision that there is no place, with every reason and its amounts."""
    compiled = CompiledRequest(cluster, request, whole=policy.whole)
    rows = cluster.rows()
    there: Mask = np.ones((len(rows), 1), np.bool_)
    if compiled.count:
        there = cluster.columns.kind[rows] >= 0
    found = sorted(diagnose_rows(compiled, rows, there.copy()), key=lambda each: -each.count)
    among = int(there.sum())
    if not among:
        what = "no accelerator" if compiled.count else "no node"
        found = [Rejection(Reason.NO_DEVICE, f"there is {what} in the cluster")]
    return Decision(request, policy.name, rejections=tuple(found), among=among)


def diagnose_rows(compiled: CompiledRequest, rows: Ints, left: Mask) -> Iterator[Rejection]:
    """Yield reasons; `left` is what none has spoken against so far, and has less with every step."""
    for reason, node_filter in NODE_FILTERS.items():
        out = left & ~np.atleast_1d(node_filter(compiled, rows))[:, None]
        yield from node_rejections(compiled, reason, rows, out)
        left &= ~out
    if compiled.count:
        yield from _devices(compiled, rows, left)
    for reason, social in INTER_POD_FILTERS.items():
        out = left & ~social(compiled, compiled.request)[rows][:, None]
        yield from node_rejections(compiled, reason, rows, out)
        left &= ~out


def _devices(compiled: CompiledRequest, rows: Ints, left: Mask) -> Iterator[Rejection]:
    kind = compiled.cluster.columns.kind[rows]
    objections = {found for found in compiled.objections if found is not None}
    for objection in sorted(objections, key=lambda found: (_TOLD.index(found[0]), found[1])):
        ids = [at for at, found in enumerate(compiled.objections) if found == objection]
        out = left & np.isin(kind, ids)
        yield from device_rejections(compiled, objection[0], rows, out, objection[1])
        left &= ~out
    for reason, device_filter in DEVICE_FILTERS.items():
        out = left & ~device_filter(compiled, rows)
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
