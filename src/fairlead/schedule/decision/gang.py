"""Gang scheduling: place all members, or none."""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import replace

from fairlead.placement import Decision, Reason, Rejection
from fairlead.request import Request, problems
from fairlead.schedule.decision.copies import place_copies
from fairlead.schedule.decision.decide import decide, place
from fairlead.schedule.decision.preempt import preempt_and_place
from fairlead.schedule.score.policies import Policy, policy_named
from fairlead.schedule.state.cluster import EngineCluster


def place_gang(
    cluster: EngineCluster,
    members: Sequence[Request],
    policy: Policy | str = "fairlead",
    *,
    preemption: bool = False,
    spared: Collection[str] = (),
) -> list[Decision]:
    """Place the members of one gang, at least its minimum size, or none of them.

    The first member without a place gives the reason for all. With `preemption`, members may evict pods of
    lower priority: their decisions name the victims, and the cluster releases them. If the gang is not
    placed, nothing is evicted. Requests in `spared` are never evicted.
    """
    policy = policy_named(policy) if isinstance(policy, str) else policy
    size = max(member.gang.size if member.gang else 1 for member in members)
    already = _placed_members(cluster, members[0])
    if len(members) + already < size:
        present = len(members) + already
        text = f"the gang has {present} member{'' if present == 1 else 's'} and must have {size}"
        return [_gang_refusal(member, policy, text) for member in members]
    mark = cluster.checkpoint()
    decisions = _place(cluster, members, policy)
    placed = sum(decision.placed for decision in decisions)
    if preemption and placed + already < size:
        decisions = _preempt_for_members(cluster, decisions, policy, size - already, spared)
        placed = sum(decision.placed for decision in decisions)
    if placed + already < size:
        # Diagnose before the rollback: afterwards the member without a place might fit.
        stuck = next(
            _diagnose_member(cluster, decision, policy) for decision in decisions if not decision.placed
        )
        cluster.rollback(mark)
        return _refuse_all(members, placed, stuck, policy)
    cluster.commit(mark)
    return [
        decision if decision.placed else decide(cluster, decision.request, policy) for decision in decisions
    ]


def _place(cluster: EngineCluster, members: Sequence[Request], policy: Policy) -> list[Decision]:
    """Place the members that fit; members of one shape at once, unless inter-pod rules decide."""
    if any(member.inter_pod or problems(member) for member in members) or cluster.pod_counts.existing_terms:
        return [place(cluster, member, policy, explain=False) for member in members]
    decided: dict[str, Decision] = {}
    shapes: dict[Hashable, list[Request]] = {}
    for member in members:
        shapes.setdefault(member.shape, []).append(member)
    for alike in shapes.values():
        decided |= {decision.request.id: decision for decision in place_copies(cluster, alike, policy)}
    return [decided.get(member.id, Decision(member, policy.name)) for member in members]


def _preempt_for_members(
    cluster: EngineCluster,
    decisions: Sequence[Decision],
    policy: Policy,
    enough: int,
    spared: Collection[str],
) -> list[Decision]:
    """Let members without a place preempt other pods, until enough of the gang are placed."""
    updated = list(decisions)
    for at, decision in enumerate(decisions):
        if decision.placed or sum(other.placed for other in updated) >= enough:
            continue
        updated[at] = preempt_and_place(cluster, decision.request, policy, spared)
        if not updated[at].placed and len(decisions) == enough:
            break  # every member is required
    return updated


def _diagnose_member(cluster: EngineCluster, refused: Decision, policy: Policy) -> Decision:
    """Return why a member has no place now, with the disruption budget that forbade its preemption."""
    budget = tuple(rejection for rejection in refused.rejections if rejection.reason is Reason.BUDGET)
    decision = decide(cluster, refused.request, policy)
    return replace(decision, rejections=(*decision.rejections, *budget))


def _refuse_all(members: Sequence[Request], placed: int, stuck: Decision, policy: Policy) -> list[Decision]:
    fit = "fits" if placed == 1 else "fit"
    text = f"only {placed} of {len(members)} of the gang {fit}; then {stuck.sentence()}"
    refused = [_gang_refusal(member, policy, text) for member in members]
    at = next(at for at, member in enumerate(members) if member.id == stuck.request.id)
    rejections = (*refused[at].rejections, *stuck.rejections)
    refused[at] = replace(refused[at], rejections=rejections, among=stuck.among)
    return refused


def _gang_refusal(member: Request, policy: Policy, text: str) -> Decision:
    size = member.gang.size if member.gang else 1
    return Decision(member, policy.name, rejections=(Rejection(Reason.GANG, text, need=size),))


def _placed_members(cluster: EngineCluster, member: Request) -> int:
    """Return how many members of the gang are already placed."""
    gang = member.gang
    if gang is None:
        return 0
    return sum(
        other.request.gang is not None
        and other.request.gang.name == gang.name
        and other.request.namespace == member.namespace
        for other in cluster.placements()
    )
