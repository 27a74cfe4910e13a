"""Survey nodes for a request: the score of each, or the reason why it does not fit."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from fairlead.placement import Reason, Rejection
from fairlead.request import Request
from fairlead.schedule.explain.diagnose import diagnose_rows
from fairlead.schedule.filter.compiled import CompiledRequest
from fairlead.schedule.score.adapt import adapted
from fairlead.schedule.score.policies import Policy
from fairlead.schedule.score.score_cache import scores_of
from fairlead.schedule.state.cluster import ABSENT, EngineCluster
from fairlead.schedule.state.columns import Floats, Ints, Mask

_ALIKE: Final = 1e-6
"""Scores that differ by less are equal."""


@dataclass(frozen=True, slots=True)
class NodeSurvey:
    """The scores of some nodes, in the order of the query."""

    compiled: CompiledRequest
    rows: Ints
    """ABSENT for nodes that the cluster does not have."""
    score: Floats
    """The score of the best place on each node; minus infinity where there is none."""

    @property
    def fits(self) -> Mask:
        """Which of the nodes have a place."""
        return self.score > -np.inf


@dataclass(frozen=True, slots=True)
class NodeRefusals:
    """Why nodes have no place."""

    reasons: tuple[Rejection, ...]
    which: Ints
    """For each node, the index into `reasons`."""
    for_good: Mask
    """Nodes that would have no place even if they were empty."""


def survey(cluster: EngineCluster, request: Request, policy: Policy, names: Iterable[str]) -> NodeSurvey:
    """Score nodes for a request without inter-pod rules."""
    cache, rows = scores_of(cluster, request, adapted(cluster, policy)), cluster.rows_of(names)
    score = np.full(len(rows), -np.inf)
    present = rows != ABSENT
    score[present] = cache.score[rows[present]]
    return NodeSurvey(cache.compiled, rows, score)


def ranks(score: Floats, best: int) -> Ints:
    """Return `best` for the highest score, one less for each lower score, and never less than 0.

    Ranks, because only a policy's order counts: the best node must win whether its lead is small or large.
    """
    result = np.zeros(len(score), np.int64)
    fits = score > -np.inf
    if fits.any():
        steps = np.round(score[fits] / _ALIKE)
        levels, back = np.unique(-steps, return_inverse=True)
        result[fits] = np.maximum(best - np.arange(len(levels)), 0)[back]
    return result


def diagnose_nodes(compiled: CompiledRequest, rows: Ints) -> NodeRefusals:
    """Return why nodes have no place: for each, the last filter that rejected one of its accelerators."""
    left = compiled.cluster.columns.kind[rows] >= 0
    reasons = [Rejection(Reason.NO_DEVICE, "have no accelerator")]
    which = np.zeros(len(rows), np.int64)
    open_nodes: Mask = np.logical_or.reduce(left, axis=1)
    for rejection in diagnose_rows(compiled, rows, left):
        # By now, `left` lacks what the reason before this one ruled out.
        open_nodes = _record_reason(which, open_nodes, left, len(reasons) - 1)
        reasons.append(rejection)
    _record_reason(which, open_nodes, left, len(reasons) - 1)
    return NodeRefusals(tuple(reasons), which, _for_good(compiled, rows))


def _record_reason(which: Ints, open_before: Mask, left: Mask, reason: int) -> Mask:
    """Record the nodes that a reason has ruled out, and return those that still have candidates."""
    open_now: Mask = np.logical_or.reduce(left, axis=1)
    which[open_before & ~open_now] = reason
    return open_now


def _could_fit(compiled: CompiledRequest) -> Mask:
    """Return the kinds that are large enough for the request when they are empty."""
    fit: Mask = compiled.memory + compiled.headroom <= compiled.total_memory
    return fit


def _for_good(compiled: CompiledRequest, rows: Ints) -> Mask:
    kind = compiled.cluster.columns.kind[rows]
    could = (kind >= 0) & compiled.allowed[kind] & _could_fit(compiled)[kind]
    enough: Mask = could.sum(axis=1) >= compiled.count
    return ~enough
