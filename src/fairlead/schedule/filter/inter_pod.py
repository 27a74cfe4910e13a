"""Inter-pod filters and scores: host ports, pod affinity and anti-affinity, topology spread."""

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
    """Pass nodes on which no pod holds a host port of the request."""
    passed = np.ones(compiled.cluster.columns.size, np.bool_)
    for held, counts in compiled.cluster.pod_counts.ports.items():
        if any(port.clashes(held) for port in request.ports):
            passed &= counts == 0
    return passed


def pod_affinity(compiled: CompiledRequest, request: Request) -> Mask:
    """Pass nodes whose domains hold a pod that the required terms select.

    As in Kubernetes, one pod must satisfy every term; two pods with one term each do not count. The first pod
    of a group passes on every node with the topology label, if it satisfies its own terms.
    """
    passed = np.ones(compiled.cluster.columns.size, np.bool_)
    terms = [term for term in request.pod_affinity if not term.weight]
    if not terms:
        return passed
    group = IntersectedPods(tuple(pods_selected_by(term, request.namespace) for term in terms))
    counts = compiled.cluster.pod_counts.counts_of(group)
    domains_by_term = [domains(compiled, term.topology) for term in terms]
    any_match = any(counts[domain >= 0].any() for domain in domains_by_term)
    first = not any_match and group.includes(request.namespace, request.labels)
    for domain in domains_by_term:
        passed &= (domain >= 0) if first else count_in_domain(compiled, domain, counts) > 0
    return passed


def pod_anti_affinity(compiled: CompiledRequest, request: Request) -> Mask:
    """Pass nodes whose domain has no conflict by the request's own terms or by those of existing pods."""
    pod_counts = compiled.cluster.pod_counts
    passed = np.ones(compiled.cluster.columns.size, np.bool_)
    for term in request.pod_anti_affinity:
        if not term.weight:
            counts = pod_counts.counts_of(pods_selected_by(term, request.namespace))
            passed &= count_in_domain(compiled, domains(compiled, term.topology), counts) == 0
    for existing, counts in pod_counts.existing_terms.items():
        if (
            existing.anti
            and not existing.term.weight
            and existing.pods.includes(request.namespace, request.labels)
        ):
            passed &= count_in_domain(compiled, domains(compiled, existing.term.topology), counts) == 0
    return passed


def topology_spread(compiled: CompiledRequest, request: Request) -> Mask:
    """Pass nodes whose domain would not exceed the smallest one by more than the skew."""
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
    for node_filter in (
        *(_OWN_NODE_RULES if rule.allowed else ()),
        *(_TOLERATED_NODES if rule.tolerated else ()),
    ):
        passed &= node_filter(compiled, rows)
    rows = rows[passed]
    if not len(rows):
        return domain >= 0
    counts = compiled.cluster.pod_counts.counts_of(SelectedPods(rule.selector, (request.namespace,)))
    by_domain = np.bincount(domain[rows], counts[rows], len(compiled.cluster.columns.values))
    present = np.unique(domain[rows])
    least = 0 if len(present) < rule.domains else by_domain[present].min()
    own = rule.selector.selects(request.labels)
    return (domain >= 0) & (by_domain[domain] + own - least <= rule.skew)


_OWN_NODE_RULES: Final = (node_selector, node_affinity)
_TOLERATED_NODES: Final = (taint_toleration, schedulable)
"""Filters on the counted nodes: the request's own node rules, and taints that it tolerates."""

INTER_POD_FILTERS: Final[dict[Reason, Callable[[CompiledRequest, Request], Mask]]] = {
    Reason.PORT: ports_free,
    Reason.POD_AFFINITY: pod_affinity,
    Reason.POD_ANTI_AFFINITY: pod_anti_affinity,
    Reason.TOPOLOGY_SPREAD: topology_spread,
}
"""One result for each row; not cached, because one placement may change the result of any row."""


def apply_inter_pod(compiled: CompiledRequest, request: Request, score: Floats) -> Floats:
    """Return the score of each row with the inter-pod filters and preferences applied."""
    passed = np.ones(len(score), np.bool_)
    for rule in INTER_POD_FILTERS.values():
        passed &= rule(compiled, request)
    return np.where(passed, score + inter_pod_score(compiled, request), -np.inf)


def inter_pod_score(compiled: CompiledRequest, request: Request) -> Floats:
    """Return the inter-pod score of each row: 0 to 100 each for preferred affinity and preferred spread."""
    pod_counts = compiled.cluster.pod_counts
    preference = np.zeros(compiled.cluster.columns.size)
    for sign, terms in ((1, request.pod_affinity), (-1, request.pod_anti_affinity)):
        for term in terms:
            counts = pod_counts.counts_of(pods_selected_by(term, request.namespace)) if term.weight else None
            if counts is not None:
                preference += (
                    sign * term.weight * count_in_domain(compiled, domains(compiled, term.topology), counts)
                )
    for existing, counts in pod_counts.existing_terms.items():
        if existing.term.weight and existing.pods.includes(request.namespace, request.labels):
            sign = -1 if existing.anti else 1
            preference += (
                sign
                * existing.term.weight
                * count_in_domain(compiled, domains(compiled, existing.term.topology), counts)
            )
    skewed = np.zeros(len(preference))
    for spread in request.topology_spread:
        if not spread.must:
            counts = pod_counts.counts_of(SelectedPods(spread.selector, (request.namespace,)))
            skewed += count_in_domain(compiled, domains(compiled, spread.topology), counts)
    return _normalized(compiled, preference) + _normalized(compiled, -skewed)


def domains(compiled: CompiledRequest, topology: str) -> NDArray[np.int32]:
    """Return the domain of every row; -1 where the node has no such label."""
    columns = compiled.cluster.columns
    column = columns.labels.get(topology)
    return np.full(columns.size, -1, np.int32) if column is None else column


def count_in_domain(
    compiled: CompiledRequest, domain: NDArray[np.int32], counts: NDArray[np.int32]
) -> Floats:
    """Return for every row the count of its domain; 0 if it is in none."""
    inside = domain >= 0
    sums = np.bincount(domain[inside], counts[inside], len(compiled.cluster.columns.values) or 1)
    return np.where(inside, sums[domain], 0.0)


def _normalized(compiled: CompiledRequest, scores: Floats) -> Floats:
    """Return scores normalized from 0 (the least) to 100 (the most)."""
    alive = scores[compiled.cluster.columns.alive]
    low, high = float(alive.min(initial=0)), float(alive.max(initial=0))
    return np.zeros(len(scores)) if high == low else 100 * (scores - low) / (high - low)
