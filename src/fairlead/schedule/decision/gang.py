"""Gangs: all of them placed, or none."""

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
    """Place the members of one gang, at least as many as it must have, or none of them.

    The first member that has no place tells why for all. With `preemption`, members may put out others, whom
    their decisions name; they are gone from the cluster then. Nobody goes for a gang that is not placed, and
    none of `spared`.
    """
    policy = policy_named(policy) if isinstance(policy, str) else policy
    size = max(member.gang.size if member.gang else 1 for member in members)
    held = _held(cluster, members[0])
    if len(members) + held < size:
        there = len(members) + held
        text = f"the gang has {there} member{'' if there == 1 else 's'} and must have {size}"
        return [_refused(member, policy, text) for member in members]
    mark = cluster.checkpoint()
    decisions = _place(cluster, members, policy)
    placed = sum(decision.placed for decision in decisions)
    if preemption and placed + held < size:
        decisions = _push(cluster, decisions, policy, size - held, spared)
        placed = sum(decision.placed for decision in decisions)
    if placed + held < size:
        # The reason is the one that was met when no more would fit; undone, it would be gone.
        stuck = next(_why(cluster, each, policy) for each in decisions if not each.placed)
        cluster.rollback(mark)
        return _none(members, placed, stuck, policy)
    cluster.commit(mark)
    return [each if each.placed else decide(cluster, each.request, policy) for each in decisions]


def _place(cluster: EngineCluster, members: Sequence[Request], policy: Policy) -> list[Decision]:
    """Place what fits of the members; all at once those that are alike and depend on no neighbour."""
    if any(member.inter_pod or problems(member) for member in members) or cluster.pod_counts.held:
        return [place(cluster, member, policy, explain=False) for member in members]
    decided: dict[str, Decision] = {}
    shapes: dict[Hashable, list[Request]] = {}
    for member in members:
        shapes.setdefault(member.shape, []).append(member)
    for alike in shapes.values():
        decided |= {place_copy.request.id: place_copy for place_copy in place_copies(cluster, alike, policy)}
    return [decided.get(member.id, Decision(member, policy.name)) for member in members]


def _push(
    cluster: EngineCluster,
    decisions: Sequence[Decision],
    policy: Policy,
    enough: int,
    spared: Collection[str],
) -> list[Decision]:
    """Let those without a place put others out, until enough of the gang are placed."""
    pushed = list(decisions)
    for at, decision in enumerate(decisions):
        if decision.placed or sum(each.placed for each in pushed) >= enough:
            continue
        pushed[at] = preempt_and_place(cluster, decision.request, policy, spared)
        if not pushed[at].placed and len(decisions) == enough:
            break  # none can be spared
    return pushed


def _why(cluster: EngineCluster, refused: Decision, policy: Policy) -> Decision:
    """Return why a member has no place now; a budget that forbids preemption was found on the way."""
    budget = tuple(rejection for rejection in refused.rejections if rejection.reason is Reason.BUDGET)
    found = decide(cluster, refused.request, policy)
    return replace(found, rejections=(*found.rejections, *budget))


def _none(members: Sequence[Request], placed: int, stuck: Decision, policy: Policy) -> list[Decision]:
    fit = "fits" if placed == 1 else "fit"
    text = f"only {placed} of {len(members)} of the gang {fit}; then {stuck.sentence()}"
    refused = [_refused(member, policy, text) for member in members]
    at = next(at for at, member in enumerate(members) if member.id == stuck.request.id)
    rejections = (*refused[at].rejections, *stuck.rejections)
    refused[at] = replace(refused[at], rejections=rejections, among=stuck.among)
    return refused


def _refused(member: Request, policy: Policy, text: str) -> Decision:
    size = member.gang.size if member.gang else 1
    return Decision(member, policy.name, rejections=(Rejection(Reason.GANG, text, need=size),))


def _held(cluster: EngineCluster, member: Request) -> int:
    """Return how many of the gang are placed already."""
    gang = member.gang
    if gang is None:
        return 0
    return sum(
        other.request.gang is not None
        and other.request.gang.name == gang.name
        and other.request.namespace == member.namespace
        for other in cluster.placements()
    )
