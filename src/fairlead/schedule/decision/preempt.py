"""Preemption: select the fewest victims of the lowest priority for a request of higher priority.

Victims respect the cluster's disruption budgets: a node whose victims would exceed one is no candidate.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final

import numpy as np

from fairlead.placement import Decision, Placement, Reason
from fairlead.request import Request
from fairlead.schedule.decision.decide import decide
from fairlead.schedule.filter.budgets import budget_rejection, budgets_after, victims_over_budget
from fairlead.schedule.filter.compiled import CompiledRequest
from fairlead.schedule.filter.filters import NODE_FILTERS
from fairlead.schedule.filter.fit import feasible_rows
from fairlead.schedule.score.policies import Policy, policy_named
from fairlead.schedule.state.cluster import EngineCluster
from fairlead.schedule.state.columns import Mask

NODES_SEARCHED: Final = 24
"""Nodes that are searched in full: those with the lowest bound on the cost."""
IMPOSSIBLE: Final = 1 << 20
"""More victims than any node has: evicting all of them would not help."""
SUBSETS: Final = 64
"""Sets of accelerators of a node that are tried for a request for several; the most promising first."""
_NOT_FREEABLE: Final = (Reason.UNSCHEDULABLE, Reason.TAINT, Reason.SELECTOR, Reason.AFFINITY)
NEVER: Final = 1 << 62
"""The deficit of an accelerator that can never take the request."""
Deficits = tuple[list[int], list[int]]
"""For each accelerator of a node, the memory and the compute that are missing."""
Cost = tuple[int, int, int]
"""The highest priority among the victims, their number, the sum of their priorities: as kube-scheduler."""


def preempt(
    cluster: EngineCluster,
    request: Request,
    policy: Policy | str = "fairlead",
    *,
    spared: Collection[str] = (),
) -> Decision:
    """Decide; if there is no place, name the victims of lower priority. The cluster does not change.

    `spared` are ids of requests that may not be evicted, for example under an exhausted disruption budget.
    """
    policy = policy_named(policy) if isinstance(policy, str) else policy
    decision = decide(cluster, request, policy)
    if decision.placed or not request.preempts or not decision.among:
        return decision
    chosen = select_victims(cluster, request, policy, spared=spared)
    if not chosen:
        return _with_budgets(cluster, decision, policy, spared)
    mark = cluster.checkpoint()
    for placement in chosen:
        cluster.release(placement.request.id)
    after = decide(cluster, request, policy)
    cluster.rollback(mark)
    if not after.placed:
        return decision
    return replace(after, victims=tuple(placement.request.id for placement in chosen))


def _with_budgets(
    cluster: EngineCluster, decision: Decision, policy: Policy, spared: Collection[str]
) -> Decision:
    """Return a refusal; if only disruption budgets forbid preemption, the refusal names them."""
    if not cluster.budgets:
        return decision
    mark = cluster.checkpoint()
    budgets = cluster.budgets
    cluster.limit_disruptions(())
    chosen = select_victims(cluster, decision.request, policy, spared=spared)
    cluster.rollback(mark)
    rejection = budget_rejection(budgets, chosen, decision.request.namespace) if chosen else None
    return decision if rejection is None else replace(decision, rejections=(*decision.rejections, rejection))


def preempt_and_place(
    cluster: EngineCluster, request: Request, policy: Policy, spared: Collection[str] = ()
) -> Decision:
    """Decide, release the victims and bind the request."""
    decision = preempt(cluster, request, policy, spared=spared)
    evicted = [cluster.release(victim) for victim in decision.victims]
    if evicted and cluster.budgets:
        cluster.limit_disruptions(budgets_after(cluster.budgets, evicted))
    if decision.placement is not None:
        cluster.bind(decision.placement)
    return decision


def select_victims(
    cluster: EngineCluster, request: Request, policy: Policy, *, spared: Collection[str] = ()
) -> tuple[Placement, ...]:
    """Return the victims; empty if evictions would not help."""
    # Published rules know no preemption: victims are chosen by requests, so that the pod fits for certain.
    compiled = CompiledRequest(cluster, request, policy.rules._replace(measured=False))
    evictable = _evictable_pods(compiled, spared)
    best: tuple[Cost, tuple[Placement, ...]] | None = None
    deficits = _deficits(compiled, list(evictable))
    ranked = sorted(
        (_cost_bound(compiled, row, pods, deficit), row)
        for (row, pods), deficit in zip(evictable.items(), deficits, strict=True)
    )
    for tried, (bound, row) in enumerate(ranked):
        if bound[1] >= IMPOSSIBLE or tried >= (10 if best is None else 1) * NODES_SEARCHED:
            break
        if best is not None and bound >= best[0]:
            break
        chosen = _cheapest_victims(compiled, row, evictable[row])
        if (
            chosen
            and not victims_over_budget(cluster.budgets, chosen)
            and (best is None or _cost(chosen) < best[0])
        ):
            best = _cost(chosen), chosen
    return best[1] if best else ()


def _evictable_pods(compiled: CompiledRequest, spared: Collection[str]) -> dict[int, list[Placement]]:
    """Return pods of lower priority by node, on nodes that lack nothing but free capacity."""
    cluster, rows = compiled.cluster, compiled.cluster.rows()
    eligible = np.zeros(cluster.columns.size, np.bool_)
    eligible[rows] = True
    for reason in _NOT_FREEABLE:
        eligible[rows] &= NODE_FILTERS[reason](compiled, rows)
    eligible &= _large_enough(compiled)
    placed = cluster.placements() if eligible.any() else ()
    protected_gangs = {
        _gang_key(compiled.request),
        *(
            _gang_key(placement.request)
            for placement in placed
            if not _is_evictable(compiled, placement, spared)
        ),
    }
    evictable: dict[int, list[Placement]] = {}
    for placement in placed:
        row, gang = cluster.row(placement.node), _gang_key(placement.request)
        if (
            eligible[row]
            and _is_evictable(compiled, placement, spared)
            and (gang is None or gang not in protected_gangs)
        ):
            evictable.setdefault(row, []).append(placement)
    return evictable


def _large_enough(compiled: CompiledRequest) -> Mask:
    """Return for every row whether it would suffice if it were empty: a cheap first test."""
    columns = compiled.cluster.columns
    enough: Mask = columns.cpu_total >= compiled.request.cpu
    if compiled.count:
        suits = compiled.allowed & (compiled.total_memory >= compiled.memory + compiled.headroom)
        enough &= suits[columns.kind].sum(axis=1) >= compiled.count
    return enough


def _is_evictable(compiled: CompiledRequest, placement: Placement, spared: Collection[str]) -> bool:
    return placement.request.priority < compiled.request.priority and placement.request.id not in spared


def _gang_key(request: Request) -> tuple[str, str] | None:
    """Return the key of a gang: evicting one evicts all, so a preemptor must outrank every member."""
    return (request.namespace, request.gang.name) if request.gang else None


def _cost_bound(
    compiled: CompiledRequest, row: int, evictable: Sequence[Placement], deficits: Deficits
) -> Cost:
    """Return a lower bound on the cost of clearing a node; it is cheap and never above the real cost."""
    levels = sorted({placement.request.priority for placement in evictable})
    for level in levels[:-1]:
        below = [placement for placement in evictable if placement.request.priority <= level]
        if (count := _fewest_victims(compiled, row, below, deficits)) < IMPOSSIBLE:
            return level, count, levels[0] * count
    count = _fewest_victims(compiled, row, evictable, deficits)
    return levels[-1], count, levels[0] * count


def _deficits(compiled: CompiledRequest, rows: Sequence[int]) -> Iterable[Deficits]:
    """Return the deficits of the accelerators of each row, as lists: reading single array items is slow."""
    columns, at = compiled.cluster.columns, np.array(rows, np.int64)
    kinds = columns.kind[at]
    allowed = compiled.allowed[kinds]
    free = compiled.free_memory(at)
    if not compiled.any_soft:  # when the last soft holder leaves, its headroom is free as well
        free = free + compiled.headrooms[kinds] * (columns.soft[at] > 0)
    memory = np.where(allowed, compiled.memory[kinds] - free, NEVER)
    compute = np.where(allowed, compiled.compute[kinds] - columns.free_compute[at], NEVER)
    return zip(memory.tolist(), compute.tolist(), strict=True)


def _fewest_victims(
    compiled: CompiledRequest, row: int, evictable: Sequence[Placement], deficits: Deficits
) -> int:
    """Return the least number of these placements that must be evicted."""
    columns, request = compiled.cluster.columns, compiled.request
    count = _fewest_on_devices(compiled, row, evictable, deficits) if compiled.count else 1
    if request.cpu:
        deficit = request.cpu - int(columns.cpu[row])
        count = max(count, _fewest(deficit, [placement.request.cpu for placement in evictable]))
    if request.memory:
        memory = [
            placement.request.memory + sum(share.memory for share in placement.shares)
            for placement in evictable
        ]
        count = max(count, _fewest(request.memory - int(columns.memory[row]), memory))
    return max(count, 1)


def _fewest(deficit: int, sizes: Iterable[int]) -> int:
    """Return how many must be evicted, the largest first, until nothing is missing."""
    count = 0
    for size in sorted(sizes, reverse=True):
        if deficit <= 0:
            break
        deficit, count = deficit - size, count + 1
    return count if deficit <= 0 else IMPOSSIBLE


def _fewest_on_devices(
    compiled: CompiledRequest, row: int, evictable: Sequence[Placement], deficits: Deficits
) -> int:
    """Return the least number of evictions until enough accelerators suffice."""
    fewest = sorted(_fewest_by_device(compiled, row, evictable, deficits))[: compiled.count]
    if len(fewest) < compiled.count or fewest[-1] >= IMPOSSIBLE:
        return IMPOSSIBLE
    spanning = compiled.count > 1 and any(len(placement.shares) > 1 for placement in evictable)
    return fewest[-1] if spanning else sum(fewest)  # a pod that spans several would count several times


def _fewest_by_device(
    compiled: CompiledRequest, row: int, evictable: Sequence[Placement], deficits: Deficits
) -> Iterator[int]:
    """Yield for each accelerator of a node how many of these must be evicted until it suffices."""
    sizes: dict[str, list[tuple[int, int]]] = {}
    for placement in evictable:
        for share in placement.shares:
            sizes.setdefault(share.device, []).append((share.memory, share.compute))
    node = compiled.cluster.node(compiled.cluster.name(row))
    for device, memory, compute in zip(node.devices if node else (), *deficits, strict=False):
        held = sizes.get(device.id)
        if held is None:
            yield IMPOSSIBLE if memory > 0 or compute > 0 else 0
        elif compiled.whole:
            yield len(held) if memory < NEVER else IMPOSSIBLE
        else:
            fewest = _fewest(memory, [size[0] for size in held])
            yield max(fewest, _fewest(compute, [size[1] for size in held]))


def _cheapest_victims(
    compiled: CompiledRequest, row: int, evictable: Sequence[Placement]
) -> tuple[Placement, ...]:
    """Return the cheapest victims of a node, with their gangs, over the sets of its accelerators."""
    cluster = compiled.cluster
    mark = cluster.checkpoint()
    for placement in evictable:
        cluster.release(placement.request.id)
    free = _sufficient_devices(compiled, row)
    over_budget = victims_over_budget(cluster.budgets, sorted(evictable, key=_reprieve_key, reverse=True))
    ordered = sorted(
        evictable, key=lambda placement: (placement.request.id not in over_budget, _reprieve_key(placement))
    )
    victim_sets = (
        []
        if free is None
        else [
            _reprieve(compiled, row, subset, ordered) for subset in _subsets(compiled, row, free, evictable)
        ]
    )
    cluster.rollback(mark)
    return min((_with_gangs(cluster, victims) for victims in victim_sets), key=_cost, default=())


def _subsets(
    compiled: CompiledRequest, row: int, free: Mask, evictable: Sequence[Placement]
) -> list[tuple[int, ...]]:
    """Return the sets of a node's accelerators that could be cleared, those with the fewest holders first."""
    if not compiled.count:
        return [()]
    holders: dict[str, int] = {}
    for share in (share for placement in evictable for share in placement.shares):
        holders[share.device] = holders.get(share.device, 0) + 1
    suitable: list[int] = np.flatnonzero(free).tolist()
    suitable.sort(key=lambda at: holders.get(compiled.cluster.device(row, at).id, 0))
    if compiled.count == 1:
        return [(at,) for at in suitable]
    while (subsets := list(combinations(suitable, compiled.count)))[SUBSETS:] and len(
        suitable
    ) > compiled.count:
        suitable.pop()
    return subsets


def _reprieve(
    compiled: CompiledRequest, row: int, columns: Sequence[int], evictable: Sequence[Placement]
) -> tuple[Placement, ...]:
    """Reprieve pods one by one in this order while these accelerators still suffice; return the rest."""
    cluster = compiled.cluster
    mark = cluster.checkpoint()
    chosen = []
    for placement in evictable:
        cluster.bind(placement, strict=False)
        free = _sufficient_devices(compiled, row)
        if free is None or not all(free[at] for at in columns):
            cluster.release(placement.request.id)
            chosen.append(placement)
    cluster.rollback(mark)
    return tuple(chosen)


def _sufficient_devices(compiled: CompiledRequest, row: int) -> Mask | None:
    """Return which accelerators of a row suffice; None: the row does not fit."""
    rows, free = feasible_rows(compiled, compiled.request, np.array([row], np.int64))
    return free[0] if len(rows) else None


def _reprieve_key(placement: Placement) -> tuple[int, int, int, str]:
    """Return the sort key for reprieves: high priority before low, small before large."""
    request = placement.request
    memory = sum(share.memory for share in placement.shares)
    return (
        -request.priority,
        sum(share.compute for share in placement.shares) + memory,
        request.cpu,
        request.id,
    )


def _cost(chosen: Sequence[Placement]) -> Cost:
    priorities = [placement.request.priority for placement in chosen]
    return max(priorities, default=0), len(chosen), sum(priorities)


def _with_gangs(cluster: EngineCluster, chosen: Sequence[Placement]) -> tuple[Placement, ...]:
    """Add the rest of every gang that would fall below its minimum size."""
    victims = {placement.request.id: placement for placement in chosen}
    gangs = dict.fromkeys(gang for placement in chosen if (gang := _gang_key(placement.request)))
    for gang in gangs:
        members = [placement for placement in cluster.placements() if _gang_key(placement.request) == gang]
        remaining = [member for member in members if member.request.id not in victims]
        if remaining and len(remaining) < max(
            member.request.gang.size for member in members if member.request.gang
        ):
            victims |= {placement.request.id: placement for placement in remaining}
    return tuple(victims.values())
