"""Many requests of one shape at once: nodes are filled in the order of their scores, each judged once."""

from collections.abc import Iterator, Sequence

import numpy as np

from fairlead.placement import Decision, Placement
from fairlead.request import Request
from fairlead.schedule.filter.compiled import CompiledRequest
from fairlead.schedule.score.policies import Policy
from fairlead.schedule.score.score_cache import ScoreCache, scores_of
from fairlead.schedule.state.cluster import EngineCluster
from fairlead.schedule.state.columns import idle_of


def place_copies(cluster: EngineCluster, members: Sequence[Request], policy: Policy) -> list[Decision]:
    """Place as many as fit, and return the decisions for these; all must be of one shape.

    What one takes of a node changes nothing for others, so their order holds until each is full; policies
    that do not pack put one on each, and look again.
    """
    decisions: list[Decision] = []
    while len(decisions) < len(members):
        known = scores_of(cluster, members[0], policy)
        before = len(decisions)
        for row in _in_order(cluster, known):
            left = members[len(decisions) :]
            placements = list(_fill(known, row, left)) if policy.packs else [known.placement(row, left[0])]
            for placement in placements:
                cluster.bind(placement)
            score = float(known.score[row])
            decisions += [Decision(each.request, policy.name, each, score) for each in placements]
            if len(decisions) == len(members):
                return decisions
        if len(decisions) == before:
            break
    return decisions


def _in_order(cluster: EngineCluster, known: ScoreCache) -> list[int]:
    rows = np.flatnonzero(known.score > -np.inf)
    best_first: list[int] = rows[np.argsort(-known.score[rows], kind="stable")].tolist()
    if known.policy.by_name:
        best_first.sort(key=lambda row: (-known.score[row], cluster.name(row)))
    return best_first


def _fill(known: ScoreCache, row: int, members: Sequence[Request]) -> Iterator[Placement]:
    """Yield a place on one node for each member, until it is full."""
    cluster = known.compiled.cluster
    best = [int(cluster.columns.kind[row, known.column[row]])] if known.compiled.count == 1 else []
    for member, columns in zip(members, _rooms(known.compiled, row, best), strict=False):
        shares = tuple(known.compiled.share(cluster.device(row, column)) for column in columns)
        yield Placement(member, cluster.name(row), shares)


def _rooms(compiled: CompiledRequest, row: int, best: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the accelerators for one copy after the other; those of the best kind go first."""
    columns, request = compiled.cluster.columns, compiled.request
    left = columns.room[row].copy()
    others = [int(columns.supply(key)[row]) // need for key, need in request.resources if need]
    free = [
        [int(columns.free_memory[row, at]), int(columns.free_compute[row, at]), int(columns.holders[row, at])]
        for at in range(columns.width)
    ]
    taken = np.array([request.cpu, request.memory, 1], np.int64)
    for _ in range(min(others, default=int(left[2]))):
        chosen = _choose(compiled, row, free, int(left[1]) - request.memory, best)
        if chosen is None or (left < compiled.needs).any():
            return
        left = left - taken
        for at in chosen:
            kind = columns.kind[row, at]
            free[at][0] -= int(compiled.memory[kind])
            free[at][1] -= int(compiled.compute[kind])
            free[at][2] += 1
            left[1] -= compiled.node_memory[kind]
        yield chosen


def _choose(
    compiled: CompiledRequest, row: int, free: Sequence[Sequence[int]], memory: int, best: Sequence[int]
) -> tuple[int, ...] | None:
    """Return the accelerators with the least to hand out that still suffice; None: there are too few."""
    kinds = compiled.cluster.columns.kind[row].tolist()
    fit = []
    for at, (of_memory, of_compute, holders) in enumerate(free):
        kind = kinds[at]
        lent = int(compiled.node_memory[kind]) * compiled.count
        if not compiled.allowed[kind] or (compiled.exclusive[kind] and holders) or lent > max(memory, 0):
            continue
        if of_memory >= compiled.least_memory[kind] and of_compute >= compiled.least_compute[kind]:
            idle = idle_of(compiled.cluster.device(row, at), of_memory, of_compute, holders)
            fit.append((kind not in best, idle, at))
    if len(fit) < compiled.count:
        return None
    return tuple(sorted(at for _, _, at in sorted(fit)[: compiled.count]))
