"""Place many requests: by priority, gangs together; evicted requests are tried again."""

from collections.abc import Iterable, Sequence
from math import inf

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
    """Place requests, and return a decision for each, in the order of the arguments.

    A request that another one of them evicts is tried again, at its own priority.
    """
    policy = policy_named(policy) if isinstance(policy, str) else policy
    ordered = list(requests)
    by_id = {request.id: request for request in ordered}
    waiting = group_by_gang(ordered, policy.queue)
    decided: dict[str, Decision] = {}
    while waiting:
        group = waiting.pop(0)
        if group[0].gang is not None:
            decisions = place_gang(cluster, group, policy, preemption=preemption)
        elif preemption:
            decisions = [preempt_and_place(cluster, group[0], policy)]
        else:
            decisions = [place(cluster, group[0], policy)]
        decided |= {decision.request.id: decision for decision in decisions}
        evicted = [by_id[victim] for decision in decisions for victim in decision.victims if victim in by_id]
        waiting += group_by_gang(evicted, policy.queue)
    return [decided[request.id] for request in ordered]


def group_by_gang(requests: Sequence[Request], queue: str = "") -> list[list[Request]]:
    """Return groups of requests in the order of placement; the members of one gang form one group.

    With the queue `largest`, of groups of equal priority the one that asks for the most memory comes first.
    """
    groups: dict[tuple[str, str], list[Request]] = {}
    for request in requests:
        gang = request.gang
        key = (request.namespace, f"gang {gang.name}") if gang else ("", request.id)
        groups.setdefault(key, []).append(request)
    if queue == "largest":
        groups = dict(sorted(groups.items(), key=lambda item: -max(map(_device_memory, item[1]))))
    return sorted(groups.values(), key=lambda group: -max(request.priority for request in group))


def _device_memory(request: Request) -> float:
    """Return the memory that a request asks for of each accelerator; whole ones are the largest."""
    return inf if request.whole else request.demand.memory or 0
