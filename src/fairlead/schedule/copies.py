"""Many requests of one shape at once: nodes are filled in the order of their scores, each judged once."""

from collections.abc import Iterator, Sequence

import numpy as np

from fairlead.placement import Decision, Placement
from fairlead.request import Request
from fairlead.schedule.ask import Ask
from fairlead.schedule.cluster import Cluster
from fairlead.schedule.columns import idle_of
from fairlead.schedule.policies import Policy
from fairlead.schedule.verdicts import Verdicts, verdicts


def place_copies(cluster: Cluster, members: Sequence[Request], policy: Policy) -> list[Decision]:
    """Place as many as fit, and return the decisions for these; all must be of one shape.

    What one takes of a node changes nothing for others, so their order holds until each is full; policies
    that do not pack put one on each, and look again.
    """
    decisions: list[Decision] = []
    while len(decisions) < len(members):
        known = verdicts(cluster, members[0], policy)
        before = len(decisions)
        for row in _in_order(cluster, known):
            left = members[len(decisions) :]
            decisions += _fill(cluster, known, row, left if policy.packs else left[:1])
            if len(decisions) == len(members):
                return decisions
        if len(decisions) == before:
            break
    return decisions


def _in_order(cluster: Cluster, known: Verdicts) -> list[int]:
    rows = np.flatnonzero(known.score > -np.inf)
    best_first: list[int] = rows[np.argsort(-known.score[rows], kind="stable")].tolist()
    if known.policy.by_name:
        best_first.sort(key=lambda row: (-known.score[row], cluster.name(row)))
    return best_first


def _fill(cluster: Cluster, known: Verdicts, row: int, members: Sequence[Request]) -> list[Decision]:
    decisions = []
    score, node = float(known.score[row]), cluster.name(row)
    for member, columns in zip(members, list(_rooms(known.ask, row, len(members))), strict=False):
        shares = tuple(known.ask.share(cluster.device(row, column)) for column in columns)
        placement = Placement(member, node, shares)
        cluster.bind(placement)
        decisions.append(Decision(member, known.policy.name, placement, score))
    return decisions


def _rooms(ask: Ask, row: int, most: int) -> Iterator[tuple[int, ...]]:
    """Yield the accelerators for one copy after the other, until the node or its accelerators are full."""
    columns, request = ask.cluster.columns, ask.request
    cpu, memory, pods = columns.room[row].tolist()
    others = [
        int(columns.resource(key, np.array([row]))[0]) // need for key, need in request.resources if need
    ]
    free = [
        [int(columns.free_memory[row, at]), int(columns.free_compute[row, at]), int(columns.holders[row, at])]
        for at in range(columns.width)
    ]
    for _ in range(min(most, pods, *others) if others else min(most, pods)):
        chosen = _choose(ask, row, free, memory - request.memory)
        cpu, memory = cpu - request.cpu, memory - request.memory
        if cpu < 0 or memory < 0 or chosen is None:
            return
        for at in chosen:
            kind = columns.kind[row, at]
            free[at][0] -= int(ask.memory[kind])
            free[at][1] -= int(ask.compute[kind])
            free[at][2] += 1
            memory -= int(ask.memory[kind]) if ask.unified[kind] and not ask.whole else 0
        yield chosen


def _choose(ask: Ask, row: int, free: Sequence[Sequence[int]], memory: int) -> tuple[int, ...] | None:
    """Return the accelerators with the least to hand out that still suffice; None: there are too few."""
    kinds = ask.cluster.columns.kind[row].tolist()
    fit = []
    for at, (of_memory, of_compute, holders) in enumerate(free):
        kind = kinds[at]
        if not ask.allowed[kind] or (ask.whole and holders):
            continue
        need = int(ask.memory[kind])
        lent = need * ask.count if ask.unified[kind] and not ask.whole else 0
        if of_memory >= ask.least_memory[kind] and of_compute >= ask.least_compute[kind] and lent <= memory:
            fit.append((idle_of(ask.cluster.device(row, at), of_memory, of_compute, holders), at))
    if len(fit) < ask.count:
        return None
    return tuple(sorted(at for _, at in sorted(fit)[: ask.count]))
