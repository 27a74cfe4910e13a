"""One decision: the best place for a request, or every reason against one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from fairlead.need import Need, effective_size
from fairlead.placement import Decision, Placement, share_of
from fairlead.request import Request, problems
from fairlead.schedule.explain.diagnose import diagnose, reject_invalid
from fairlead.schedule.explain.unknown import unknown_of
from fairlead.schedule.filter.inter_pod import apply_inter_pod
from fairlead.schedule.score.adapt import adapted
from fairlead.schedule.score.policies import Policy, policy_named
from fairlead.schedule.score.score_cache import scores_of
from fairlead.schedule.state.cluster import EngineCluster
from fairlead.schedule.state.columns import Floats
from fairlead.units import Bytes

LARGE: Final = 10_000
"""Accelerators above which the search rounds amounts up first.

Otherwise the engine scores every node for each of many request sizes. If no place fits the rounded request,
the search repeats with the exact amounts.
"""

MOST: Final = 1 << 62


def decide(
    cluster: EngineCluster, request: Request, policy: Policy | str = "fairlead", *, explain: bool = True
) -> Decision:
    """Return where a request goes, or why it goes nowhere; the cluster does not change.

    Reasons cost a pass over every row; a caller that needs only the place sets `explain` to False.
    """
    policy = policy_named(policy) if isinstance(policy, str) else policy
    if invalid := problems(request):
        return reject_invalid(request, policy.name, invalid)
    decision = _best(cluster, request, policy)
    if decision is None:
        return diagnose(cluster, request, policy) if explain else Decision(request, policy.name)
    return decision


def place(
    cluster: EngineCluster, request: Request, policy: Policy | str = "fairlead", *, explain: bool = True
) -> Decision:
    """Decide, and bind the placement in the cluster."""
    decision = decide(cluster, request, policy, explain=explain)
    if decision.placement is not None:
        cluster.bind(decision.placement, strict=False)  # the cluster has not changed since the search
    return decision


def _best(cluster: EngineCluster, request: Request, policy: Policy) -> Decision | None:
    """Search for a place; in a large cluster, first for the request with its amounts rounded up."""
    if cluster.cells > LARGE:
        rounded = round_up_request(request, cluster.columns.sizes)
        if rounded is not request:
            decision = _search(cluster, rounded, policy)
            if decision is not None:
                return _exact(cluster, request, policy, decision)
    return _search(cluster, request, policy)


def _search(cluster: EngineCluster, request: Request, policy: Policy) -> Decision | None:
    policy = adapted(cluster, policy)
    cache = scores_of(cluster, request, policy)
    score = cache.score
    if not len(score):
        return None
    if request.inter_pod or cluster.pod_counts.existing_terms:
        score = apply_inter_pod(cache.compiled, request, score)
    row = int(score.argmax())
    best = float(score[row])
    if best == -np.inf:
        return None
    if policy.by_name:
        row = _smallest_name(cluster, score, best)
    placement = cache.placement(row, request)
    unknown = unknown_of(cache.compiled, placement, policy)
    return Decision(request, policy.name, placement, best, unknown=unknown)


def _exact(cluster: EngineCluster, request: Request, policy: Policy, rounded: Decision) -> Decision:
    """Return the decision for the exact amounts of the request."""
    assert rounded.placement is not None
    row = cluster.row(rounded.placement.node)
    devices = [cluster.device_named(row, share.device) for share in rounded.placement.shares]
    whole = policy.whole or request.whole
    shares = tuple(share_of(request, device, whole=whole) for device in devices)
    placement = Placement(request, rounded.placement.node, shares)
    return replace(rounded, request=request, placement=placement)


def round_up_request(request: Request, sizes: Sequence[int] = ()) -> Request:
    """Return the request with amounts rounded up, so that many requests share one shape; itself if round.

    The memory is rounded up to no more than the smallest sufficient one of the accelerator `sizes`: a request
    for all of a small accelerator must not move to a large one.
    """
    demand = request.demand
    cpu, memory = round_up(request.cpu, 3), round_up(request.memory, 3)
    of_device, need = demand.memory, _rounded_need(request, sizes)
    if of_device and need is not None:
        of_device = need.peak  # the need decides: requests that differ in what they ask for share one shape
    elif of_device:
        enough = (size for size in sizes if size >= of_device)
        of_device = Bytes(min(round_up(of_device, 4), min(enough, default=MOST)))
    if (cpu, memory, of_device, need) == (request.cpu, request.memory, demand.memory, request.need):
        return request
    demand = replace(demand, memory=of_device)
    return replace(request, cpu=cpu, memory=Bytes(memory), demand=demand, need=need)


def _rounded_need(request: Request, sizes: Sequence[int]) -> Need | None:
    """Return one size that a need counts for at most, on accelerators of these sizes, rounded up."""
    known = [size for size in sizes if size]
    if request.need is None or not known:
        return request.need
    counted = effective_size(request.need, min(known))  # a larger accelerator counts no more
    return Need.fixed(Bytes(round_up(counted, 4)), firm=request.need.firm)


def round_up(amount: int, bits: int) -> int:
    """Round an amount up to that many significant bits: with 4, by an eighth at most."""
    spare = max(amount.bit_length() - bits, 0)
    return -(-amount >> spare) << spare


def _smallest_name(cluster: EngineCluster, score: Floats, best: float) -> int:
    return min(np.flatnonzero(score == best).tolist(), key=cluster.name)
