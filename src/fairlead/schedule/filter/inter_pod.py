"""Rules that depend on who else is there: ports of the host, neighbours wanted or not, even spread."""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fairlead.placement import Reason
from fairlead.request import Request, TopologySpread
from fairlead.schedule.filter.compiled import CompiledRequest
from fairlead.schedule.filter.filters import node_affinity, node_selector, schedulable, taint_toleration
from fairlead.schedule.state.columns import Floats, Ints, Mask
from fairlead.schedule.state.pod_counts import IntersectedPods, SelectedPods, pods_selected_by


def ports_free(compiled: CompiledRequest, request: Request) -> Mask:
    """Pass nodes on which nobody holds a port that is asked for."""
    passed = np.ones(compiled.cluster.columns.size, np.bool_)
    for held, counts in compiled.cluster.pod_counts.ports.items():
        if any(port.clashes(held) for port in request.ports):
            passed &= counts == 0
    return passed


def pod_affinity(compiled: CompiledRequest, request: Request) -> Mask:
    """Pass nodes in whose domains the wanted neighbours are; the first of a group may be its own.

    As in Kubernetes, a neighbour is who satisfies every term, and not one of them here and another there.
    """
    passed = np.ones(compiled.cluster.columns.size, np.bool_)
    rules = [rule for rule in request.pod_affinity if not rule.weight]
    if not rules:
        return passed
    friends = IntersectedPods(tuple(pods_selected_by(rule, request.namespace) for rule in rules))
    counts = compiled.cluster.pod_counts.of(friends)
    where = [domains(compiled, rule.topology) for rule in rules]
    met = any(counts[domain >= 0].any() for domain in where)
    first = not met and friends.has(request.namespace, request.labels)
    for domain in where:
        passed &= (domain >= 0) if first else count_in_domain(compiled, domain, counts) > 0
    return passed


def pod_anti_affinity(compiled: CompiledRequest, request: Request) -> Mask:
    """Pass nodes in whose domain nobody is unwanted, neither by this request nor by those who are there."""
    pod_counts = compiled.cluster.pod_counts
    passed = np.ones(compiled.cluster.columns.size, np.bool_)
    for rule in request.pod_anti_affinity:
        if not rule.weight:
            counts = pod_counts.of(pods_selected_by(rule, request.namespace))
            passed &= count_in_domain(compiled, domains(compiled, rule.topology), counts) == 0
    for held, counts in pod_counts.held.items():
        if (
            held.pod_anti_affinity
            and not held.rule.weight
            and held.group.has(request.namespace, request.labels)
        ):
            passed &= count_in_domain(compiled, domains(compiled, held.rule.topology), counts) == 0
    return passed


def topology_spread(compiled: CompiledRequest, request: Request) -> Mask:
    """Pass nodes whose domain would not exceed the emptiest one by more than the allowed skew."""
    rules = [rule for rule in request.topology_spread if rule.must]
    passed = np.ones(compiled.cluster.columns.size, np.bool_)
    for rule in rules:
        passed &= domains(compiled, rule.topology) >= 0
    counted = np.flatnonzero(passed & compiled.cluster.columns.alive)  # with the labels of every rule
    for rule in rules:
        passed &= _within_skew(compiled, request, rule, counted)
    return passed


def _within_skew(compiled: CompiledRequest, request: Request, rule: TopologySpread, rows: Ints) -> Mask:
    domain = domains(compiled, rule.topology)
    passed = np.ones(len(rows), np.bool_)
    for each in (*(_OF_ITS_OWN if rule.allowed else ()), *(_BORNE if rule.tolerated else ())):
        passed &= each(compiled, rows)
    rows = rows[passed]
    if not len(rows):
        return domain >= 0
    counts = compiled.cluster.pod_counts.of(SelectedPods(rule.selector, (request.namespace,)))
    by_domain = np.bincount(domain[rows], counts[rows], len(compiled.cluster.columns.values))
    present = np.unique(domain[rows])
    least = 0 if len(present) < rule.domains else by_domain[present].min()
    own = rule.selector.selects(request.labels)
    return (domain >= 0) & (by_domain[domain] + own - least <= rule.skew)


_OF_ITS_OWN: Final = (node_selector, node_affinity)
_BORNE: Final = (taint_toleration, schedulable)
"""Which nodes have a part in evenness: those that its own rules allow, and those whose taints it bears."""

INTER_POD_FILTERS: Final[dict[Reason, Callable[[CompiledRequest, Request], Mask]]] = {
    Reason.PORT: ports_free,
    Reason.POD_AFFINITY: pod_affinity,
    Reason.POD_ANTI_AFFINITY: pod_anti_affinity,
    Reason.TOPOLOGY_SPREAD: topology_spread,
}
"""One verdict for each row; asked anew for every request, because each placement may change it anywhere."""


def apply_inter_pod(compiled: CompiledRequest, request: Request, score: Floats) -> Floats:
    """Return a score of rows, with what the neighbours have to say about it."""
    passed = np.ones(len(score), np.bool_)
    for rule in INTER_POD_FILTERS.values():
        passed &= rule(compiled, request)
    return np.where(passed, score + inter_pod_score(compiled, request), -np.inf)


def inter_pod_score(compiled: CompiledRequest, request: Request) -> Floats:
    """Return how much rows are liked for their neighbours: 0 to 100 for each sort of wish."""
    pod_counts = compiled.cluster.pod_counts
    liked = np.zeros(compiled.cluster.columns.size)
    for sign, rules in ((1, request.pod_affinity), (-1, request.pod_anti_affinity)):
        for rule in rules:
            counts = pod_counts.of(pods_selected_by(rule, request.namespace)) if rule.weight else None
            if counts is not None:
                liked += (
                    sign * rule.weight * count_in_domain(compiled, domains(compiled, rule.topology), counts)
                )
    for held, counts in pod_counts.held.items():
        if held.rule.weight and held.group.has(request.namespace, request.labels):
            sign = -1 if held.pod_anti_affinity else 1
            liked += (
                sign
                * held.rule.weight
                * count_in_domain(compiled, domains(compiled, held.rule.topology), counts)
            )
    crowded = np.zeros(len(liked))
    for spread in request.topology_spread:
        if not spread.must:
            counts = pod_counts.of(SelectedPods(spread.selector, (request.namespace,)))
            crowded += count_in_domain(compiled, domains(compiled, spread.topology), counts)
    return _hundred(compiled, liked) + _hundred(compiled, -crowded)


def domains(compiled: CompiledRequest, topology: str) -> NDArray[np.int32]:
    """Return the domain of every row; -1 where the node has no such label."""
    columns = compiled.cluster.columns
    found = columns.labels.get(topology)
    return np.full(columns.size, -1, np.int32) if found is None else found


def count_in_domain(
    compiled: CompiledRequest, domain: NDArray[np.int32], counts: NDArray[np.int32]
) -> Floats:
    """Return for every row how many are counted in its domain; 0 where it is in none."""
    inside = domain >= 0
    sums = np.bincount(domain[inside], counts[inside], len(compiled.cluster.columns.values) or 1)
    return np.where(inside, sums[domain], 0.0)


def _hundred(compiled: CompiledRequest, liked: Floats) -> Floats:
    """Return a liking stretched from 0, the least, to 100, the most."""
    alive = liked[compiled.cluster.columns.alive]
    low, high = float(alive.min(initial=0)), float(alive.max(initial=0))
    return np.zeros(len(liked)) if high == low else 100 * (liked - low) / (high - low)
