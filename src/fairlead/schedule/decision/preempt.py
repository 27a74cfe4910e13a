"""Preemption: the victims that a request of higher priority needs; of the lowest priority, and few.

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
"""Nodes that are searched in full; they are those that promise the least cost."""
IMPOSSIBLE: Final = 1 << 20
"""More victims than there are: clearing the node would not help."""
SUBSETS: Final = 64
"""Sets of accelerators of a node that are tried for a request of several; the most promising first."""
_LASTING: Final = (Reason.UNSCHEDULABLE, Reason.TAINT, Reason.SELECTOR, Reason.AFFINITY)
NEVER: Final = 1 << 62
"""What an accelerator lacks that will not do."""
Lacks = tuple[list[int], list[int]]
"""Of each accelerator of a node, what memory and what compute it has too little of."""
Cost = tuple[int, int, int]
"""The highest priority of who must go, how many they are, the sum of their priorities: as kube-scheduler."""


def preempt(
    cluster: EngineCluster,
    request: Request,
    policy: Policy | str = "fairlead",
    *,
    spared: Collection[str] = (),
) -> Decision:
    """Decide; where there is no place, name those of lower priority that must go first. Nothing is changed.

    `spared` are ids of requests that may not be put out, such as those of a full disruption budget.
    """
    policy = policy_named(policy) if isinstance(policy, str) else policy
    decision = decide(cluster, request, policy)
    if decision.placed or not request.preempts or not decision.among:
        return decision
    found = select_victims(cluster, request, policy, spared=spared)
    if not found:
        return _with_budgets(cluster, decision, policy, spared)
    mark = cluster.checkpoint()
    for placement in found:
        cluster.release(placement.request.id)
    after = decide(cluster, request, policy)
    cluster.rollback(mark)
    if not after.placed:
        return decision
    return replace(after, victims=tuple(placement.request.id for placement in found))


def _with_budgets(
    cluster: EngineCluster, decision: Decision, policy: Policy, spared: Collection[str]
) -> Decision:
    """Return a refusal; where only disruption budgets stand against preemption, it names them."""
    if not cluster.budgets:
        return decision
    mark = cluster.checkpoint()
    budgets = cluster.budgets
    cluster.limit_disruptions(())
    found = select_victims(cluster, decision.request, policy, spared=spared)
    cluster.rollback(mark)
    against = budget_rejection(budgets, found, decision.request.namespace) if found else None
    return decision if against is None else replace(decision, rejections=(*decision.rejections, against))


def preempt_and_place(
    cluster: EngineCluster, request: Request, policy: Policy, spared: Collection[str] = ()
) -> Decision:
    """Decide, and count it as done: those who must go are gone, and the request is placed."""
    decision = preempt(cluster, request, policy, spared=spared)
    gone = [cluster.release(victim) for victim in decision.victims]
    if gone and cluster.budgets:
        cluster.limit_disruptions(budgets_after(cluster.budgets, gone))
    if decision.placement is not None:
        cluster.bind(decision.placement)
    return decision


def select_victims(
    cluster: EngineCluster, request: Request, policy: Policy, *, spared: Collection[str] = ()
) -> tuple[Placement, ...]:
    """Return who must go; nobody, where that would not help."""
    compiled = CompiledRequest(cluster, request, whole=policy.whole)
    weak = _weak(compiled, spared)
    best: tuple[Cost, tuple[Placement, ...]] | None = None
    lacks = _lacks(compiled, list(weak))
    ranked = sorted(
        (_bound(compiled, row, found, lack), row)
        for (row, found), lack in zip(weak.items(), lacks, strict=True)
    )
    for tried, (least, row) in enumerate(ranked):
        if least[1] >= IMPOSSIBLE or tried >= (10 if best is None else 1) * NODES_SEARCHED:
            break
        if best is not None and least >= best[0]:
            break
        found = _clear(compiled, row, weak[row])
        if (
            found
            and not victims_over_budget(cluster.budgets, found)
            and (best is None or _cost(found) < best[0])
        ):
            best = _cost(found), found
    return best[1] if best else ()


def _weak(compiled: CompiledRequest, spared: Collection[str]) -> dict[int, list[Placement]]:
    """Return those of lower priority, by node, on nodes that nothing but room speaks against."""
    cluster, rows = compiled.cluster, compiled.cluster.rows()
    open_to_it = np.zeros(cluster.columns.size, np.bool_)
    open_to_it[rows] = True
    for reason in _LASTING:
        open_to_it[rows] &= NODE_FILTERS[reason](compiled, rows)
    open_to_it &= _large_enough(compiled)
    placed = cluster.placements() if open_to_it.any() else ()
    firm = {
        _gang(compiled.request),
        *(_gang(each.request) for each in placed if not _may_go(compiled, each, spared)),
    }
    weak: dict[int, list[Placement]] = {}
    for placement in placed:
        row, gang = cluster.row(placement.node), _gang(placement.request)
        if open_to_it[row] and _may_go(compiled, placement, spared) and (gang is None or gang not in firm):
            weak.setdefault(row, []).append(placement)
    return weak


def _large_enough(compiled: CompiledRequest) -> Mask:
    """Say of every row whether it would do if nobody were there: mostly that is soon seen."""
    columns = compiled.cluster.columns
    enough: Mask = columns.cpu_total >= compiled.request.cpu
    if compiled.count:
        suits = compiled.allowed & (compiled.total_memory >= compiled.memory)
        enough &= suits[columns.kind].sum(axis=1) >= compiled.count
    return enough


def _may_go(compiled: CompiledRequest, placement: Placement, spared: Collection[str]) -> bool:
    return placement.request.priority < compiled.request.priority and placement.request.id not in spared


def _gang(request: Request) -> tuple[str, str] | None:
    """Return what stands for a gang: to put out one is to put out all, so none may who is not above all."""
    return (request.namespace, request.gang.name) if request.gang else None


def _bound(compiled: CompiledRequest, row: int, found: Sequence[Placement], lacks: Lacks) -> Cost:
    """Return the least that clearing a node could cost; cheap, and never more than it does cost."""
    levels = sorted({placement.request.priority for placement in found})
    for level in levels[:-1]:
        lower = [placement for placement in found if placement.request.priority <= level]
        if (lacking := _lacking(compiled, row, lower, lacks)) < IMPOSSIBLE:
            return level, lacking, levels[0] * lacking
    lacking = _lacking(compiled, row, found, lacks)
    return levels[-1], lacking, levels[0] * lacking


def _lacks(compiled: CompiledRequest, rows: Sequence[int]) -> Iterable[Lacks]:
    """Return what the accelerators of each row lack: in lists, as numbers come slowly out of arrays."""
    columns, at = compiled.cluster.columns, np.array(rows, np.int64)
    kinds = columns.kind[at]
    allowed = compiled.allowed[kinds]
    memory = np.where(allowed, compiled.memory[kinds] - columns.free_memory[at], NEVER)
    compute = np.where(allowed, compiled.compute[kinds] - columns.free_compute[at], NEVER)
    return zip(memory.tolist(), compute.tolist(), strict=True)


def _lacking(compiled: CompiledRequest, row: int, found: Sequence[Placement], lacks: Lacks) -> int:
    """Return how many of these must go at the least."""
    columns, request = compiled.cluster.columns, compiled.request
    lacking = _fewest_on_devices(compiled, row, found, lacks) if compiled.count else 1
    if request.cpu:
        lack = request.cpu - int(columns.cpu[row])
        lacking = max(lacking, _fewest(lack, [each.request.cpu for each in found]))
    if request.memory:
        memory = [each.request.memory + sum(share.memory for share in each.shares) for each in found]
        lacking = max(lacking, _fewest(request.memory - int(columns.memory[row]), memory))
    return max(lacking, 1)


def _fewest(lack: int, sizes: Iterable[int]) -> int:
    """Return how many must go, the largest first, until nothing lacks."""
    count = 0
    for size in sorted(sizes, reverse=True):
        if lack <= 0:
            break
        lack, count = lack - size, count + 1
    return count if lack <= 0 else IMPOSSIBLE


def _fewest_on_devices(compiled: CompiledRequest, row: int, found: Sequence[Placement], lacks: Lacks) -> int:
    """Return how many must go at the least until as many accelerators as are asked for suffice."""
    fewest = sorted(_fewest_by_device(compiled, row, found, lacks))[: compiled.count]
    if len(fewest) < compiled.count or fewest[-1] >= IMPOSSIBLE:
        return IMPOSSIBLE
    spanning = compiled.count > 1 and any(len(placement.shares) > 1 for placement in found)
    return fewest[-1] if spanning else sum(fewest)  # one that spans several would be counted several times


def _fewest_by_device(
    compiled: CompiledRequest, row: int, found: Sequence[Placement], lacks: Lacks
) -> Iterator[int]:
    """Yield of each accelerator of a node how many of these must go until it suffices."""
    sizes: dict[str, list[tuple[int, int]]] = {}
    for placement in found:
        for share in placement.shares:
            sizes.setdefault(share.device, []).append((share.memory, share.compute))
    node = compiled.cluster.node(compiled.cluster.name(row))
    for device, memory, compute in zip(node.devices if node else (), *lacks, strict=False):
        held = sizes.get(device.id)
        if held is None:
            yield IMPOSSIBLE if memory > 0 or compute > 0 else 0
        elif compiled.whole:
            yield len(held) if memory < NEVER else IMPOSSIBLE
        else:
            fewest = _fewest(memory, [each[0] for each in held])
            yield max(fewest, _fewest(compute, [each[1] for each in held]))


def _clear(compiled: CompiledRequest, row: int, weak: Sequence[Placement]) -> tuple[Placement, ...]:
    """Return which of a node's weak must go, and their gangs, trying sets of its accelerators in turn."""
    cluster = compiled.cluster
    mark = cluster.checkpoint()
    for placement in weak:
        cluster.release(placement.request.id)
    free = _room(compiled, row)
    over = victims_over_budget(cluster.budgets, sorted(weak, key=_worth, reverse=True))
    ordered = sorted(weak, key=lambda each: (each.request.id not in over, _worth(each)))
    tries = (
        []
        if free is None
        else [_spare(compiled, row, subset, ordered) for subset in _subsets(compiled, row, free, weak)]
    )
    cluster.rollback(mark)
    return min((_with_gangs(cluster, each) for each in tries), key=_cost, default=())


def _subsets(
    compiled: CompiledRequest, row: int, free: Mask, weak: Sequence[Placement]
) -> list[tuple[int, ...]]:
    """Return the sets of a node's accelerators that could be cleared; those that fewest hold come first."""
    if not compiled.count:
        return [()]
    holders: dict[str, int] = {}
    for share in (share for placement in weak for share in placement.shares):
        holders[share.device] = holders.get(share.device, 0) + 1
    suitable: list[int] = np.flatnonzero(free).tolist()
    suitable.sort(key=lambda at: holders.get(compiled.cluster.device(row, at).id, 0))
    if compiled.count == 1:
        return [(at,) for at in suitable]
    while (found := list(combinations(suitable, compiled.count)))[SUBSETS:] and len(
        suitable
    ) > compiled.count:
        suitable.pop()
    return found


def _spare(
    compiled: CompiledRequest, row: int, columns: Sequence[int], weak: Sequence[Placement]
) -> tuple[Placement, ...]:
    """Let those back, one by one in this order, without which these accelerators still suffice."""
    cluster = compiled.cluster
    mark = cluster.checkpoint()
    gone = []
    for placement in weak:
        cluster.bind(placement, strict=False)
        free = _room(compiled, row)
        if free is None or not all(free[at] for at in columns):
            cluster.release(placement.request.id)
            gone.append(placement)
    cluster.rollback(mark)
    return tuple(gone)


def _room(compiled: CompiledRequest, row: int) -> Mask | None:
    """Return which accelerators of a row suffice; None: the row has no place."""
    rows, free = feasible_rows(compiled, compiled.request, np.array([row], np.int64))
    return free[0] if len(rows) else None


def _worth(placement: Placement) -> tuple[int, int, int, str]:
    """Return the order in which pods are let back: the strong before the weak, the small before the large."""
    request = placement.request
    memory = sum(share.memory for share in placement.shares)
    return (
        -request.priority,
        sum(share.compute for share in placement.shares) + memory,
        request.cpu,
        request.id,
    )


def _cost(found: Sequence[Placement]) -> Cost:
    priorities = [placement.request.priority for placement in found]
    return max(priorities, default=0), len(found), sum(priorities)


def _with_gangs(cluster: EngineCluster, found: Sequence[Placement]) -> tuple[Placement, ...]:
    """Add the rest of every gang that would be left too small: half a gang is of no use."""
    chosen = {placement.request.id: placement for placement in found}
    gangs = dict.fromkeys(gang for each in found if (gang := _gang(each.request)))
    for gang in gangs:
        members = [each for each in cluster.placements() if _gang(each.request) == gang]
        left = [member for member in members if member.request.id not in chosen]
        if left and len(left) < max(member.request.gang.size for member in members if member.request.gang):
            chosen |= {each.request.id: each for each in left}
    return tuple(chosen.values())
