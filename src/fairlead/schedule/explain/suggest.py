"""Suggest changes: the single changes that would let a refused request fit, smallest first."""

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
from fairlead.schedule.filter.filters import NODE_FILTERS, slowdowns
from fairlead.schedule.filter.fit import feasible_rows, fits
from fairlead.schedule.filter.rules import SharingRules
from fairlead.schedule.score.policies import Policy, policy_named
from fairlead.schedule.state.cluster import EngineCluster
from fairlead.units import format_number

DROP_RULE: Final = 0.5
"""The size of dropping a rule: larger than a fifth less memory, smaller than three quarters less."""
OTHER_DEVICE: Final = 0.6
"""The size of running on another model or in another precision."""
PREEMPT: Final = 0.7
"""The size of evicting other pods."""


def with_suggestions(
    cluster: EngineCluster, decision: Decision, policy: Policy | str | None = None
) -> Decision:
    """Return a refusal with the changes that would let the request fit, smallest first.

    The caller must pass a policy that is not installed under a name.
    """
    if decision.placed or not decision.among:
        return decision
    changes = suggest_changes(cluster, decision.request, policy or decision.policy)
    return replace(decision, changes=changes)


def suggest_changes(
    cluster: EngineCluster, request: Request, policy: Policy | str = "fairlead"
) -> tuple[SuggestedChange, ...]:
    """Return every single change that would let a request fit, smallest first."""
    policy = policy_named(policy) if isinstance(policy, str) else policy
    changes = [
        *suggest_smaller_amounts(cluster, request, policy.rules),
        *_fewer_rules(cluster, request, policy.rules),
        *_other_devices(cluster, request, policy.rules),
        *_slower_slo(cluster, request, policy.rules),
        *_higher_priority(cluster, request, policy),
    ]
    return tuple(sorted(changes, key=lambda change: change.share))


def _fewer_rules(cluster: EngineCluster, request: Request, rules: SharingRules) -> Iterator[SuggestedChange]:
    """Yield the rules without which the request fits."""
    for field, text, other in _without_one_rule(request):
        if fits(cluster, other, rules):
            yield SuggestedChange(field, text, share=DROP_RULE)
    if taints := _missing_tolerations(cluster, request, rules):
        yield SuggestedChange("tolerations", f"tolerate {taints}", share=DROP_RULE)
    cordoned = [node for node in cluster.nodes() if node.unschedulable]
    for node in cordoned[:16]:
        mark = cluster.checkpoint()
        cluster.put(replace(node, unschedulable=False))
        if fits(cluster, request, rules):
            yield SuggestedChange("cluster", f"uncordon {node.name}", share=DROP_RULE)
        cluster.rollback(mark)


def _without_one_rule(request: Request) -> Iterator[tuple[str, str, Request]]:
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


def _missing_tolerations(cluster: EngineCluster, request: Request, rules: SharingRules) -> str:
    """Return the smallest set of taints that the request must tolerate to fit; empty: there is none."""
    every = {taint for taints in cluster.columns.taint_sets for taint in taints}
    more = tuple(Toleration(taint.key, taint.value, effect=taint.effect) for taint in every)
    tolerant = replace(request, tolerations=(*request.tolerations, *more))
    rows, _ = feasible_rows(CompiledRequest(cluster, tolerant, rules), tolerant, cluster.rows())
    sets = list(cluster.columns.taint_sets)
    numbers = np.unique(cluster.columns.taints[rows]).tolist()
    taint_sets = [
        [taint for taint in sets[number] if repels(taint, request.tolerations)] for number in numbers
    ]
    return " and ".join(str(taint) for taint in min(taint_sets, key=len, default=()))


def _other_devices(
    cluster: EngineCluster, request: Request, rules: SharingRules
) -> Iterator[SuggestedChange]:
    """Yield other precisions, models and vendors with which the request fits."""
    demand = request.demand
    if demand.precision:
        known = {name for kind in cluster.columns.kinds for name in kind.precisions} - {demand.precision}
        for name in sorted(known):
            if fits(cluster, _with_demand(request, replace(demand, precision=name)), rules):
                yield SuggestedChange(
                    "demand.precision", f"run in {name} instead of {demand.precision}", share=OTHER_DEVICE
                )
    if demand.models or demand.excluded:
        other = _with_demand(request, replace(demand, models=(), excluded=()))
        if device := _first_device(cluster, other, rules):
            yield SuggestedChange(
                "demand.models", f"also allow {device.model or device.id}", share=OTHER_DEVICE
            )
    if demand.vendors:
        other = _with_demand(request, replace(demand, vendors=()))
        if device := _first_device(cluster, other, rules):
            yield SuggestedChange("demand.vendors", f"also allow {device.vendor}", share=OTHER_DEVICE)


def _first_device(cluster: EngineCluster, request: Request, rules: SharingRules) -> DeviceState | None:
    rows, free = feasible_rows(CompiledRequest(cluster, request, rules), request, cluster.rows())
    return cluster.device(int(rows[0]), int(np.argmax(free[0]))) if len(rows) else None


def _slower_slo(cluster: EngineCluster, request: Request, rules: SharingRules) -> Iterator[SuggestedChange]:
    """Yield the SLO that an accelerator with room would keep."""
    if request.slo is None:
        return
    patient = replace(request, slo=None)
    compiled = CompiledRequest(cluster, patient, rules)
    rows, free = feasible_rows(compiled, patient, cluster.rows())
    slowdown = 1.0 if rules.price is None else slowdowns(compiled, rows)[0]
    seconds = (compiled.seconds[cluster.columns.kind[rows]] * slowdown)[free]
    if len(rows) and not np.isnan(seconds).all():
        best = float(np.nanmin(seconds))
        allowed = f"allow {_milliseconds(best)} instead of {_milliseconds(request.slo)}"
        text = allowed + (_faster_but_full(compiled, best) if rules.price is None else "")
        yield SuggestedChange("slo", text, best, 1 - request.slo / best if best > request.slo else 0.0)
    elif len(rows):
        model = list(cluster.columns.kinds)[int(cluster.columns.kind[rows][free][0])].model
        where = f" on {model}" if model else " there"
        yield SuggestedChange("slo", f"drop the SLO: the latency{where} is not known", share=DROP_RULE)


def _faster_but_full(compiled: CompiledRequest, best: float) -> str:
    """Return why the suggestion does not use the fastest accelerator; empty: it does.

    A refusal names the best expected latency of all accelerators, also of those without room.
    """
    rows = compiled.cluster.rows()
    kind = compiled.cluster.columns.kind[rows]
    candidates = compiled.allowed[kind]
    for node_filter in NODE_FILTERS.values():
        candidates = candidates & np.atleast_1d(node_filter(compiled, rows))[:, None]
    seconds = np.where(candidates, compiled.seconds[kind], np.nan)
    if not (seconds < best).any():
        return ""
    fastest = float(np.nanmin(seconds))
    candidates = seconds == fastest
    model = list(compiled.cluster.columns.kinds)[int(kind[candidates][0])].model
    reasons = sorted(diagnose_rows(compiled, rows, candidates), key=lambda rejection: -rejection.count)
    why = f": {reasons[0].with_count()}" if reasons else ""
    return f"; {model} is expected to take {_milliseconds(fastest)}, but has no room{why}"


def _milliseconds(seconds: float) -> str:
    return f"{format_number(1000 * seconds)} ms"


def _higher_priority(cluster: EngineCluster, request: Request, policy: Policy) -> Iterator[SuggestedChange]:
    """Yield the lowest priority at which the request would preempt other pods."""
    levels = sorted({placement.request.priority + 1 for placement in cluster.placements()})
    levels = [level for level in levels if level > request.priority]
    if not levels:
        return
    low, high = 0, len(levels) - 1
    victims = select_victims(cluster, _with_priority(request, levels[high]), policy)
    while low < high and victims:
        middle = (low + high) // 2
        if fewer := select_victims(cluster, _with_priority(request, levels[middle]), policy):
            high, victims = middle, fewer
        else:
            low = middle + 1
    if victims:
        others = _describe_victims(request, [placement.request for placement in victims])
        text = f"raise the priority to {levels[high]}, which evicts {others}"
        yield SuggestedChange("priority", text, levels[high], PREEMPT)


def _describe_victims(request: Request, victims: Sequence[Request]) -> str:
    """Return the victims for a sentence; pods of other namespaces are counted, never named."""
    named = [victim.name for victim in victims if victim.namespace == request.namespace]
    others_count = len(victims) - len(named)
    parts = [", ".join(named[:3]) + (" ..." if len(named) > 3 else "")] if named else []
    return " and ".join([*parts, *([f"{others_count} of other namespaces"] if others_count else [])])


def _with_priority(request: Request, priority: int) -> Request:
    return replace(request, priority=priority, preempts=True)


def _with_demand(request: Request, demand: Demand) -> Request:
    return replace(request, demand=demand)
