"""What each of some nodes says to a request: a score, or what stands in the way on it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from fairlead.placement import Reason, Rejection
from fairlead.request import Request
from fairlead.schedule.explain.diagnose import diagnose_rows
from fairlead.schedule.filter.compiled import CompiledRequest
from fairlead.schedule.score.policies import Policy
from fairlead.schedule.score.score_cache import scores_of
from fairlead.schedule.state.cluster import ABSENT, EngineCluster
from fairlead.schedule.state.columns import Floats, Ints, Mask

_ALIKE: Final = 1e-6
"""Scores that differ by less are the same."""


@dataclass(frozen=True, slots=True)
class NodeSurvey:
    """The answers of some nodes, in the order in which they were asked."""

    compiled: CompiledRequest
    rows: Ints
    """ABSENT for those that are not there."""
    score: Floats
    """Of the best place on each; minus infinity where there is none."""

    @property
    def fits(self) -> Mask:
        """Which of them have a place."""
        return self.score > -np.inf


@dataclass(frozen=True, slots=True)
class NodeRefusals:
    """Why some nodes have no place."""

    reasons: tuple[Rejection, ...]
    which: Ints
    """For each of the nodes, which of the reasons."""
    for_good: Mask
    """Those on which there would be no place even if all that is placed there went."""


def survey(cluster: EngineCluster, request: Request, policy: Policy, names: Iterable[str]) -> NodeSurvey:
    """Ask nodes for a place for a request that minds no neighbours."""
    known, rows = scores_of(cluster, request, policy), cluster.rows_of(names)
    score = np.full(len(rows), -np.inf)
    there = rows != ABSENT
    score[there] = known.score[rows[there]]
    return NodeSurvey(known.compiled, rows, score)


def ranks(score: Floats, best: int) -> Ints:
    """Return `best` for the highest score, one less for each score below it, and never less than 0.

    Ranks, because a policy's order counts: what leaves the fewest fragments is to win by little or by much.
    """
    found = np.zeros(len(score), np.int64)
    fits = score > -np.inf
    if fits.any():
        steps = np.round(score[fits] / _ALIKE)
        levels, back = np.unique(-steps, return_inverse=True)
        found[fits] = np.maximum(best - np.arange(len(levels)), 0)[back]
    return found


def diagnose_nodes(compiled: CompiledRequest, rows: Ints) -> NodeRefusals:
    """Return why nodes have no place: of all that is against a node, what its nearest accelerator lacks."""
    left = compiled.cluster.columns.kind[rows] >= 0
    reasons = [Rejection(Reason.NO_DEVICE, "are not there")]
    which = np.zeros(len(rows), np.int64)
    still: Mask = np.logical_or.reduce(left, axis=1)
    for found in diagnose_rows(compiled, rows, left):
        # What the reason before this one ruled out has gone from `left` by now.
        still = _closed(which, still, left, len(reasons) - 1)
        reasons.append(found)
    _closed(which, still, left, len(reasons) - 1)
    return NodeRefusals(tuple(reasons), which, _for_good(compiled, rows))


def _closed(which: Ints, still: Mask, left: Mask, reason: int) -> Mask:
    """Note which nodes a reason has closed, and return those that are still open."""
    now: Mask = np.logical_or.reduce(left, axis=1)
    which[still & ~now] = reason
    return now


def _for_good(compiled: CompiledRequest, rows: Ints) -> Mask:
    kind = compiled.cluster.columns.kind[rows]
    could = (kind >= 0) & compiled.allowed[kind] & (compiled.memory[kind] <= compiled.total_memory[kind])
    enough: Mask = could.sum(axis=1) >= compiled.count
    return ~enough
