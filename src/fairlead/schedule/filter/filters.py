"""Filters on nodes and accelerators: each tests many rows at once and returns which pass."""

from collections.abc import Callable
from typing import Final

import numpy as np

from fairlead.keys import SHARING_STRATEGY
from fairlead.placement import Reason
from fairlead.request import LabelTerm, MatchOperator, Selector, Taint, repels
from fairlead.schedule.filter.compiled import CompiledRequest
from fairlead.schedule.filter.interference import (
    MPS_PRICE,
    MPS_TAIL,
    TIME_SLICING_TAIL,
    price_factor,
    tail_factor,
)
from fairlead.schedule.state.columns import Floats, Ints, Mask
from fairlead.schedule.state.deficit import column_of

Filter = Callable[[CompiledRequest, Ints], Mask | np.bool_]
ALL: Final = np.True_
"""Every row passes: the request asks for nothing that the filter tests."""
CORDONED: Final = Taint("node.kubernetes.io/unschedulable")
"""The taint that Kubernetes gives a cordoned node."""


def schedulable(compiled: CompiledRequest, rows: Ints) -> Mask | np.bool_:
    """Pass nodes that are not cordoned; all, if the request tolerates cordoned nodes."""
    tolerates_cordon = any(toleration.covers(CORDONED) for toleration in compiled.request.tolerations)
    if tolerates_cordon or not compiled.cluster.columns.cordoned:
        return ALL
    return ~compiled.cluster.columns.unschedulable[rows]


def taint_toleration(compiled: CompiledRequest, rows: Ints) -> Mask | np.bool_:
    """Pass nodes whose every taint is tolerated or is PreferNoSchedule."""
    sets = compiled.cluster.columns.taint_sets
    if len(sets) == 1:
        return ALL
    tolerations = compiled.request.tolerations
    tolerated = np.array([not any(repels(taint, tolerations) for taint in taints) for taints in sets])
    return tolerated[compiled.cluster.columns.taints[rows]]


def node_selector(compiled: CompiledRequest, rows: Ints) -> Mask | np.bool_:
    """Pass nodes with the labels of the node selector."""
    selector = compiled.request.selector
    return matching_rows(compiled, selector, rows) if selector.terms or selector.names else ALL


def node_affinity(compiled: CompiledRequest, rows: Ints) -> Mask | np.bool_:
    """Pass nodes that one term of the node affinity selects."""
    affinity = compiled.request.affinity
    if not affinity:
        return ALL
    passed: Mask = np.logical_or.reduce([matching_rows(compiled, term, rows) for term in affinity])
    return passed


def selectors_evaluate(compiled: CompiledRequest, rows: Ints) -> Mask | np.bool_:
    """Pass nodes without an accelerator on which a selector of the claims fails."""
    if not compiled.selector_failed.any():
        return ALL
    failed: Mask = np.any(compiled.selector_failed[compiled.cluster.columns.kind[rows]], axis=1)
    return ~failed


def has_cpu(compiled: CompiledRequest, rows: Ints) -> Mask:
    """Pass nodes with enough CPU left."""
    return compiled.cluster.columns.cpu[rows] >= int(compiled.needs[0])


def has_memory(compiled: CompiledRequest, rows: Ints) -> Mask:
    """Pass nodes with enough memory left."""
    return compiled.cluster.columns.memory[rows] >= int(compiled.needs[1])


def has_pods(compiled: CompiledRequest, rows: Ints) -> Mask:
    """Pass nodes that may run one more pod."""
    return compiled.cluster.columns.pods[rows] >= 1


def has_resources(compiled: CompiledRequest, rows: Ints) -> Mask | np.bool_:
    """Pass nodes with enough of every other extended resource."""
    passed: Mask | np.bool_ = ALL
    for key, amount in compiled.request.resources:
        if amount:
            passed = passed & (compiled.cluster.columns.resource(key, rows) >= amount)
    return passed


def has_room(compiled: CompiledRequest, rows: Ints) -> Mask:
    """Pass nodes with enough CPU, memory and pods left: three filters in one comparison."""
    passed: Mask = np.logical_and.reduce(
        compiled.cluster.columns.room.take(rows, axis=0) >= compiled.needs, axis=1
    )
    return passed


def matching_rows(compiled: CompiledRequest, selector: Selector, rows: Ints) -> Mask:
    """Return which rows a selector of nodes selects."""
    passed = np.ones(len(rows), np.bool_)
    for term in selector.terms:
        passed &= term_holds(compiled, term, rows)
    for term in selector.names:
        passed &= np.array([term.holds_for(compiled.cluster.name(row)) for row in rows.tolist()], np.bool_)
    return passed


def term_holds(compiled: CompiledRequest, term: LabelTerm, rows: Ints) -> Mask:
    """Return for which rows a term about a label holds."""
    columns = compiled.cluster.columns
    values = columns.label(term.key, rows)
    if term.match in (MatchOperator.EXISTS, MatchOperator.DOES_NOT_EXIST):
        return values >= 0 if term.match is MatchOperator.EXISTS else values < 0
    if term.match in (MatchOperator.IN, MatchOperator.NOT_IN):
        wanted = columns.value_ids(term.values)
        inside: Mask = np.isin(values, wanted)
        return inside if term.match is MatchOperator.IN else ~inside
    texts = list(columns.values)
    ids, back = np.unique(values, return_inverse=True)
    held = [value >= 0 and term.holds_for(texts[value]) for value in ids.tolist()]
    return np.array(held, np.bool_)[back]


def unheld(compiled: CompiledRequest, rows: Ints) -> Mask | np.bool_:
    """Pass accelerators without a holder, for kinds that the request takes exclusively."""
    if not compiled.any_exclusive:
        return ALL
    columns = compiled.cluster.columns
    shared = ~compiled.exclusive[columns.kind.take(rows, axis=0)]
    passed: Mask = shared | (columns.holders.take(rows, axis=0) == 0)
    return passed


def has_device_memory(compiled: CompiledRequest, rows: Ints) -> Mask | np.bool_:
    """Pass accelerators with enough memory left; for unified memory, the node must have it too."""
    if not compiled.memory_known:
        return ALL
    columns = compiled.cluster.columns
    kind = columns.kind.take(rows, axis=0)
    passed: Mask = compiled.free_memory(rows) >= compiled.least_memory[kind]
    if compiled.any_node_memory:
        left, lent = (
            columns.memory[rows] - compiled.request.memory,
            compiled.node_memory[kind] * compiled.count,
        )
        passed &= (lent == 0) | (left[:, None] >= lent)
    return passed


def tolerates_slowdown(compiled: CompiledRequest, rows: Ints) -> Mask | np.bool_:
    """Pass accelerators on which the predicted p99 stays within every SLO, if the policy predicts it."""
    if compiled.rules.price is None:
        return ALL
    if (
        compiled.request.slo is None
        and np.isposinf(compiled.cluster.columns.tolerance.take(rows, axis=0)).all()
    ):
        return ALL
    predicted, tolerated = slowdowns(compiled, rows)
    return predicted <= tolerated


def slowdowns(compiled: CompiledRequest, rows: Ints) -> tuple[Floats, Floats]:
    """Return the slowdown of p99 for all holders of each accelerator, and what they tolerate."""
    columns, side_by_side = compiled.cluster.columns, _side_by_side(compiled, rows)[:, None]
    load = columns.busy.take(rows, axis=0) + (compiled.request.busy or 0.0)
    co_runners = columns.holders.take(rows, axis=0).astype(np.float64)
    price = compiled.rules.price or 0.0
    prices = np.where(side_by_side, min(price, MPS_PRICE), price)
    tails = np.where(side_by_side, MPS_TAIL, TIME_SLICING_TAIL)
    mean: Floats = price_factor(co_runners, prices) * np.maximum(1.0, load)
    predicted = mean * tail_factor(co_runners, tails)
    own = compiled.tolerance[columns.kind.take(rows, axis=0)]
    return predicted, np.minimum(columns.tolerance.take(rows, axis=0), own)


def _side_by_side(compiled: CompiledRequest, rows: Ints) -> Mask:
    """Return on which nodes contexts run side by side: there a co-runner costs less."""
    columns = compiled.cluster.columns
    side_by_side: Mask = np.isin(columns.label(SHARING_STRATEGY, rows), columns.value_ids(("mps",)))
    return side_by_side


def uncorrelated(compiled: CompiledRequest, rows: Ints) -> Mask | np.bool_:
    """Pass accelerators that the request does not list as correlated with its use."""
    if not compiled.request.correlated:
        return ALL
    cluster, index = compiled.cluster, {row: at for at, row in enumerate(rows.tolist())}
    passed = np.ones((len(rows), cluster.columns.width), np.bool_)
    for name, device in compiled.request.correlated:
        node = cluster.node(name)
        at = index.get(cluster.row(name)) if node else None
        column = column_of(node.devices, device) if node else None
        if at is not None and column is not None:
            passed[at, column] = False
    return passed


def has_device_compute(compiled: CompiledRequest, rows: Ints) -> Mask:
    """Pass accelerators with enough compute left; at least some, if the request asks for none."""
    columns = compiled.cluster.columns
    return columns.free_compute.take(rows, axis=0) >= compiled.least_compute[columns.kind.take(rows, axis=0)]


NODE_FILTERS: Final[dict[Reason, Filter]] = {
    Reason.UNSCHEDULABLE: schedulable,
    Reason.TAINT: taint_toleration,
    Reason.SELECTOR: node_selector,
    Reason.AFFINITY: node_affinity,
    Reason.CPU: has_cpu,
    Reason.MEMORY: has_memory,
    Reason.PODS: has_pods,
    Reason.RESOURCE: has_resources,
    Reason.DEVICE_SELECTOR: selectors_evaluate,
}
"""One result for each row."""
QUICK_FILTERS: Final[tuple[Filter, ...]] = (
    has_room,
    schedulable,
    taint_toleration,
    selectors_evaluate,
    node_selector,
    node_affinity,
    has_resources,
)
"""The same filters, merged, for searches that need no reasons."""
DEVICE_FILTERS: Final[dict[Reason, Filter]] = {
    Reason.BUSY: unheld,
    Reason.DEVICE_MEMORY: has_device_memory,
    Reason.DEVICE_COMPUTE: has_device_compute,
    Reason.SLOWDOWN: tolerates_slowdown,
    Reason.CORRELATION: uncorrelated,
}
"""One result for each accelerator of each row."""
