"""Place many requests of one shape at once: score each node once and fill nodes in score order."""

from collections.abc import Iterator, Sequence

import numpy as np

from fairlead.placement import Decision, Placement
from fairlead.request import Request
from fairlead.schedule.explain.unknown import unknown_of
from fairlead.schedule.filter.compiled import CompiledRequest
from fairlead.schedule.score.adapt import adapted
from fairlead.schedule.score.policies import Policy
from fairlead.schedule.score.score_cache import ScoreCache, scores_of
from fairlead.schedule.state.cluster import EngineCluster
from fairlead.schedule.state.columns import idle_of


def place_copies(cluster: EngineCluster, members: Sequence[Request], policy: Policy) -> list[Decision]:
    """Place as many members as fit, and return the decisions for these; all must be of one shape.

    A placement on one node does not change the scores of other nodes, so the order holds until each node is
    full. A policy that does not pack puts one member on each node, and then scores again.
    """
    decisions: list[Decision] = []
    policy = adapted(cluster, policy)
    while len(decisions) < len(members):
        cache = scores_of(cluster, members[0], policy)
        before = len(decisions)
        for row in _rows_by_score(cluster, cache):
            left = members[len(decisions) :]
            placements = (
                list(_fill_node(cache, row, left)) if policy.packs else [cache.placement(row, left[0])]
            )
            for placement in placements:
                cluster.bind(placement)
            score = float(cache.score[row])
            unknown = unknown_of(cache.compiled, placements[0], policy) if placements else ()
            decisions += [
                Decision(placement.request, policy.name, placement, score, unknown=unknown)
                for placement in placements
            ]
            if len(decisions) == len(members):
                return decisions
        if len(decisions) == before:
            break
    return decisions


def _rows_by_score(cluster: EngineCluster, cache: ScoreCache) -> list[int]:
    rows = np.flatnonzero(cache.score > -np.inf)
    best_first: list[int] = rows[np.argsort(-cache.score[rows], kind="stable")].tolist()
    if cache.policy.by_name:
        best_first.sort(key=lambda row: (-cache.score[row], cluster.name(row)))
    return best_first


def _fill_node(cache: ScoreCache, row: int, members: Sequence[Request]) -> Iterator[Placement]:
    """Yield a placement on one node for each member, until the node is full."""
    cluster = cache.compiled.cluster
    best = [int(cluster.columns.kind[row, cache.column[row]])] if cache.compiled.count == 1 else []
    for member, columns in zip(members, _device_sets(cache.compiled, row, best), strict=False):
        shares = tuple(cache.compiled.share(cluster.device(row, column)) for column in columns)
        yield Placement(member, cluster.name(row), shares)


def _device_sets(compiled: CompiledRequest, row: int, best: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the accelerators for one member after the other; those of the best kind come first."""
    columns, request = compiled.cluster.columns, compiled.request
    node_free = columns.room[row].copy()
    limits = [int(columns.supply(key)[row]) // need for key, need in request.resources if need]
    memory = columns.free_memory[row]
    if compiled.any_soft or compiled.rules.measured:
        memory = compiled.free_memory(np.array([row], np.int64))[0]
    free = [
        [int(memory[at]), int(columns.free_compute[row, at]), int(columns.holders[row, at])]
        for at in range(columns.width)
    ]
    taken = np.array([request.cpu, request.memory, 1], np.int64)
    for _ in range(min(limits, default=int(node_free[2]))):
        chosen = _choose(compiled, row, free, int(node_free[1]) - request.memory, best)
        if chosen is None or (node_free < compiled.needs).any():
            return
        node_free = node_free - taken
        for at in chosen:
            kind = columns.kind[row, at]
            free[at][0] -= int(compiled.memory[kind])
            free[at][1] -= int(compiled.compute[kind])
            free[at][2] += 1
            node_free[1] -= compiled.node_memory[kind]
        yield chosen


def _choose(
    compiled: CompiledRequest, row: int, free: Sequence[Sequence[int]], memory: int, best: Sequence[int]
) -> tuple[int, ...] | None:
    """Return the accelerators with the least free capacity that still suffice; None: there are too few."""
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
