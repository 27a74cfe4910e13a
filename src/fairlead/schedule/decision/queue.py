"""Many requests at once: the important first, gangs together, and those put out tried again."""

from collections.abc import Iterable, Sequence

from fairlead.placement import Decision
from fairlead.request import Request
from fairlead.schedule.decision.decide import place
from fairlead.schedule.decision.gang import place_gang
from fairlead.schedule.decision.preempt import preempt_and_place
from fairlead.schedule.score.policies import Policy, policy_named
from fairlead.schedule.state.cluster import EngineCluster


def place_all(
    cluster: EngineCluster,
    requests: Iterable[Request],
    policy: Policy | str = "fairlead",
    *,
    preemption: bool = True,
) -> list[Decision]:
    """Place requests, and return a decision for each in the order in which they came.

    Who is put out by another of these is tried again, at its own priority.
    """
    policy = policy_named(policy) if isinstance(policy, str) else policy
    listed = list(requests)
    by_id = {request.id: request for request in listed}
    waiting = group_by_gang(listed)
    decided: dict[str, Decision] = {}
    while waiting:
        group = waiting.pop(0)
        if group[0].gang is not None:
            found = place_gang(cluster, group, policy, preemption=preemption)
        elif preemption:
            found = [preempt_and_place(cluster, group[0], policy)]
        else:
            found = [place(cluster, group[0], policy)]
        decided |= {decision.request.id: decision for decision in found}
        out = [by_id[victim] for each in found for victim in each.victims if victim in by_id]
        waiting += group_by_gang(out)
    return [decided[request.id] for request in listed]


def group_by_gang(requests: Sequence[Request]) -> list[list[Request]]:
    """Return requests in the order in which they are to be placed; those of one gang together."""
    groups: dict[tuple[str, str], list[Request]] = {}
    for request in requests:
        gang = request.gang
        key = (request.namespace, f"gang {gang.name}") if gang else ("", request.id)
        groups.setdefault(key, []).append(request)
    return sorted(groups.values(), key=lambda group: -max(request.priority for request in group))
