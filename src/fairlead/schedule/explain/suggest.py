"""The smallest change: what single thing, done differently, would let a refused request fit."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from fairlead.placement import Decision, DeviceState, SuggestedChange
from fairlead.request import Demand, Request, Selector, Toleration, repels
from fairlead.schedule.decision.preempt import select_victims
from fairlead.schedule.explain.amounts import suggest_smaller_amounts
from fairlead.schedule.explain.diagnose import diagnose_rows
from fairlead.schedule.filter.compiled import CompiledRequest
from fairlead.schedule.filter.filters import NODE_FILTERS
from fairlead.schedule.filter.fit import feasible_rows, fits
from fairlead.schedule.score.policies import Policy, policy_named
from fairlead.schedule.state.cluster import EngineCluster
from fairlead.units import format_number

DROPPED: Final = 0.5
"""How large it counts to give up a rule: more than a fifth less memory, less than three quarters less."""
ELSEWHERE: Final = 0.6
"""How large it counts to run on another model or in another precision."""
PUSHED: Final = 0.7
"""How large it counts to put others out."""


def with_suggestions(
    cluster: EngineCluster, decision: Decision, policy: Policy | str | None = None
) -> Decision:
    """Return a refusal with the changes that would let it fit, smallest first.

    A policy that has no name of its own among those installed must be given.
    """
    if decision.placed or not decision.among:
        return decision
    found = suggest_changes(cluster, decision.request, policy or decision.policy)
    return replace(decision, changes=found)


def suggest_changes(
    cluster: EngineCluster, request: Request, policy: Policy | str = "fairlead"
) -> tuple[SuggestedChange, ...]:
    """Return every single change that would let a request fit, smallest first."""
    policy = policy_named(policy) if isinstance(policy, str) else policy
    found = [
        *suggest_smaller_amounts(cluster, request, whole=policy.whole),
        *_fewer_rules(cluster, request, whole=policy.whole),
        *_other_devices(cluster, request, whole=policy.whole),
        *_slower(cluster, request, whole=policy.whole),
        *_more_important(cluster, request, policy),
    ]
    return tuple(sorted(found, key=lambda change: change.share))


def _fewer_rules(cluster: EngineCluster, request: Request, *, whole: bool) -> Iterator[SuggestedChange]:
    """Yield rules without which it fits."""
    for field, text, other in _without(request):
        if fits(cluster, other, whole=whole):
            yield SuggestedChange(field, text, share=DROPPED)
    if taints := _borne(cluster, request, whole=whole):
        yield SuggestedChange("tolerations", f"tolerate {taints}", share=DROPPED)
    cordoned = [node for node in cluster.nodes() if node.unschedulable]
    for node in cordoned[:16]:
        mark = cluster.checkpoint()
        cluster.put(replace(node, unschedulable=False))
        if fits(cluster, request, whole=whole):
            yield SuggestedChange("cluster", f"uncordon {node.name}", share=DROPPED)
        cluster.rollback(mark)


def _without(request: Request) -> Iterator[tuple[str, str, Request]]:
    for term in request.selector.terms:
        rest = tuple(other for other in request.selector.terms if other != term)
        yield "selector", f"drop the node selector {term}", replace(request, selector=Selector(rest))
    if request.affinity:
        yield "affinity", "drop the node affinity", replace(request, affinity=())
    if request.pod_affinity:
        yield "pod_affinity", "drop the pod affinity", replace(request, pod_affinity=())
    if request.pod_anti_affinity:
        yield "pod_anti_affinity", "drop the pod anti-affinity", replace(request, pod_anti_affinity=())
    if request.topology_spread:
        yield "topology_spread", "drop the topology spread", replace(request, topology_spread=())
    if request.ports:
        yield "ports", "drop the host port", replace(request, ports=())


def _borne(cluster: EngineCluster, request: Request, *, whole: bool) -> str:
    """Return the fewest taints of a node that would do if they were tolerated; empty: there is none."""
    every = {taint for taints in cluster.columns.taint_sets for taint in taints}
    more = tuple(Toleration(taint.key, taint.value, effect=taint.effect) for taint in every)
    bold = replace(request, tolerations=(*request.tolerations, *more))
    rows, _ = feasible_rows(CompiledRequest(cluster, bold, whole=whole), bold, cluster.rows())
    sets = list(cluster.columns.taint_sets)
    numbers = np.unique(cluster.columns.taints[rows]).tolist()
    found = [[each for each in sets[number] if repels(each, request.tolerations)] for number in numbers]
    return " and ".join(str(each) for each in min(found, key=len, default=()))


def _other_devices(cluster: EngineCluster, request: Request, *, whole: bool) -> Iterator[SuggestedChange]:
    """Yield other precisions, models and vendors that would do."""
    demand = request.demand
    if demand.precision:
        known = {name for kind in cluster.columns.kinds for name in kind.precisions} - {demand.precision}
        for name in sorted(known):
            if fits(cluster, _with(request, replace(demand, precision=name)), whole=whole):
                yield SuggestedChange(
                    "demand.precision", f"run in {name} instead of {demand.precision}", share=ELSEWHERE
                )
    if demand.models or demand.excluded:
        other = _with(request, replace(demand, models=(), excluded=()))
        if device := _where(cluster, other, whole=whole):
            yield SuggestedChange("demand.models", f"also allow {device.model or device.id}", share=ELSEWHERE)
    if demand.vendors:
        other = _with(request, replace(demand, vendors=()))
        if device := _where(cluster, other, whole=whole):
            yield SuggestedChange("demand.vendors", f"also allow {device.vendor}", share=ELSEWHERE)


def _where(cluster: EngineCluster, request: Request, *, whole: bool) -> DeviceState | None:
    rows, free = feasible_rows(CompiledRequest(cluster, request, whole=whole), request, cluster.rows())
    return cluster.device(int(rows[0]), int(np.argmax(free[0]))) if len(rows) else None


def _slower(cluster: EngineCluster, request: Request, *, whole: bool) -> Iterator[SuggestedChange]:
    """Yield the SLO that could be kept."""
    if request.slo is None:
        return
    patient = replace(request, slo=None)
    compiled = CompiledRequest(cluster, patient, whole=whole)
    rows, free = feasible_rows(compiled, patient, cluster.rows())
    seconds = compiled.seconds[cluster.columns.kind[rows]][free]
    if len(rows) and not np.isnan(seconds).all():
        best = float(np.nanmin(seconds))
        text = f"allow {_milliseconds(best)} instead of {_milliseconds(request.slo)}{_faster(compiled, best)}"
        yield SuggestedChange("slo", text, best, 1 - request.slo / best if best > request.slo else 0.0)


def _faster(compiled: CompiledRequest, best: float) -> str:
    """Say why the fastest accelerator is not the one to allow for; empty: it is.

    A refusal tells the best latency that is expected anywhere, on accelerators without room too.
    """
    rows = compiled.cluster.rows()
    kind = compiled.cluster.columns.kind[rows]
    left = compiled.allowed[kind]
    for node_filter in NODE_FILTERS.values():
        left = left & np.atleast_1d(node_filter(compiled, rows))[:, None]
    seconds = np.where(left, compiled.seconds[kind], np.nan)
    if not (seconds < best).any():
        return ""
    fastest = float(np.nanmin(seconds))
    left = seconds == fastest
    model = list(compiled.cluster.columns.kinds)[int(kind[left][0])].model
    reasons = sorted(diagnose_rows(compiled, rows, left), key=lambda each: -each.count)
    why = f": {reasons[0].counted()}" if reasons else ""
    return f"; {model} is expected to take {_milliseconds(fastest)}, but has no room{why}"


def _milliseconds(seconds: float) -> str:
    return f"{format_number(1000 * seconds)} ms"


def _more_important(cluster: EngineCluster, request: Request, policy: Policy) -> Iterator[SuggestedChange]:
    """Yield the least priority at which it would put others out."""
    levels = sorted({placement.request.priority + 1 for placement in cluster.placements()})
    levels = [level for level in levels if level > request.priority]
    if not levels:
        return
    low, high = 0, len(levels) - 1
    out = select_victims(cluster, _raised(request, levels[high]), policy)
    while low < high and out:
        middle = (low + high) // 2
        if fewer := select_victims(cluster, _raised(request, levels[middle]), policy):
            high, out = middle, fewer
        else:
            low = middle + 1
    if out:
        others = _neighbours(request, [placement.request for placement in out])
        text = f"raise the priority to {levels[high]}, putting out {others}"
        yield SuggestedChange("priority", text, levels[high], PUSHED)


def _neighbours(request: Request, others: Sequence[Request]) -> str:
    """Return others for a sentence on a request: in another namespace it is nobody's business who runs."""
    near = [each.name for each in others if each.namespace == request.namespace]
    far = len(others) - len(near)
    told = [", ".join(near[:3]) + (" ..." if len(near) > 3 else "")] if near else []
    return " and ".join([*told, *([f"{far} of other namespaces"] if far else [])])


def _raised(request: Request, priority: int) -> Request:
    return replace(request, priority=priority, preempts=True)


def _with(request: Request, demand: Demand) -> Request:
    return replace(request, demand=demand)
