"""One decision: the best place for a request, or every reason against."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from fairlead.placement import Decision, Placement, share_of
from fairlead.request import Request, problems
from fairlead.schedule.explain.diagnose import diagnose, reject_invalid
from fairlead.schedule.filter.inter_pod import apply_inter_pod
from fairlead.schedule.score.policies import Policy, policy_named
from fairlead.schedule.score.score_cache import scores_of
from fairlead.schedule.state.cluster import EngineCluster
from fairlead.schedule.state.columns import Floats
from fairlead.units import Bytes

LARGE: Final = 10_000
"""Accelerators from which on amounts are rounded up while a place is sought.

Requests of many sizes would otherwise each be judged on every node; what does not fit so is sought exactly.
"""

MOST: Final = 1 << 62


def decide(
    cluster: EngineCluster, request: Request, policy: Policy | str = "fairlead", *, explain: bool = True
) -> Decision:
    """Return where a request goes, or why nowhere; nothing is changed.

    Reasons cost a look at everything; who only wants to know whether it fits does without.
    """
    policy = policy_named(policy) if isinstance(policy, str) else policy
    if wrong := problems(request):
        return reject_invalid(request, policy.name, wrong)
    found = _best(cluster, request, policy)
    if found is None:
        return diagnose(cluster, request, policy) if explain else Decision(request, policy.name)
    return found


def place(
    cluster: EngineCluster, request: Request, policy: Policy | str = "fairlead", *, explain: bool = True
) -> Decision:
    """Decide, and count the placement as made."""
    decision = decide(cluster, request, policy, explain=explain)
    if decision.placement is not None:
        cluster.bind(decision.placement, strict=False)  # nothing has changed since it was found to fit
    return decision


def _best(cluster: EngineCluster, request: Request, policy: Policy) -> Decision | None:
    """Look for a place, in a large cluster first for a little more than is asked."""
    if cluster.cells > LARGE:
        rough = round_up_request(request, cluster.columns.sizes)
        if rough is not request:
            found = _search(cluster, rough, policy)
            if found is not None:
                return _exact(cluster, request, policy, found)
    return _search(cluster, request, policy)


def _search(cluster: EngineCluster, request: Request, policy: Policy) -> Decision | None:
    known = scores_of(cluster, request, policy)
    score = known.score
    if not len(score):
        return None
    if request.inter_pod or cluster.pod_counts.held:
        score = apply_inter_pod(known.compiled, request, score)
    row = int(score.argmax())
    best = float(score[row])
    if best == -np.inf:
        return None
    if policy.by_name:
        row = _smallest_name(cluster, score, best)
    return Decision(request, policy.name, known.placement(row, request), best)


def _exact(cluster: EngineCluster, request: Request, policy: Policy, rough: Decision) -> Decision:
    """Return the decision for what was really asked."""
    assert rough.placement is not None
    row = cluster.row(rough.placement.node)
    devices = [cluster.device_named(row, share.device) for share in rough.placement.shares]
    whole = policy.whole or request.whole
    shares = tuple(share_of(request, device, whole=whole) for device in devices)
    return Decision(request, policy.name, Placement(request, rough.placement.node, shares), rough.score)


def round_up_request(request: Request, sizes: Sequence[int] = ()) -> Request:
    """Return a request for a little more, so that many are alike; itself, where it is round already.

    No more than the smallest of the `sizes` of accelerators that suffices: who asks for all of a small one
    is not to end up on a large one.
    """
    demand = request.demand
    cpu, memory = round_up(request.cpu, 3), round_up(request.memory, 3)
    of_device = demand.memory
    if of_device:
        enough = (size for size in sizes if size >= of_device)
        of_device = Bytes(min(round_up(of_device, 4), min(enough, default=MOST)))
    if (cpu, memory, of_device) == (request.cpu, request.memory, demand.memory):
        return request
    return replace(request, cpu=cpu, memory=Bytes(memory), demand=replace(demand, memory=of_device))


def round_up(amount: int, bits: int) -> int:
    """Round an amount up to so many binary digits: with 4, by an eighth at most."""
    spare = max(amount.bit_length() - bits, 0)
    return -(-amount >> spare) << spare


def _smallest_name(cluster: EngineCluster, score: Floats, best: float) -> int:
    return min(np.flatnonzero(score == best).tolist(), key=cluster.name)
