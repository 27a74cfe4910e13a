"""Adapt a policy to a cluster: rehearse its alternatives on a sample of the nodes with the expected demand.

No single measure of fragments is best on every cluster: what is scarce beside the accelerators differs, and
so does what a refused pod would have taken. So the alternatives fill the same sample of empty nodes with the
same pods, and the policy places by the one that allocates most, if it is clearly ahead of its own scores.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from random import Random
from statistics import fmean
from typing import Final, NamedTuple

import numpy as np

from fairlead.placement import NodeState
from fairlead.request import WHOLE, Demand, Request
from fairlead.schedule.score.mix import EVEN, DemandMix, typical_demand
from fairlead.schedule.score.policies import Policy, alternatives
from fairlead.schedule.score.score_cache import scores_of
from fairlead.schedule.state.cluster import EngineCluster

OVER: Final = 1.3
"""The demand of a rehearsal, relative to all accelerators of the sample."""
ROUNDS: Final = 3
"""How often the alternatives are rehearsed, each time with the pods in another order."""
PODS: Final = 450
"""Pods of a round, unless they would fill too few accelerators for a figure."""
LEAST: Final = 48
"""The accelerators of a sample, at least."""
MOST_PODS: Final = 3000
HOPELESS: Final = 2.5
"""Points behind after one round beyond which an alternative is rehearsed no more."""
MARGIN: Final = 0.3
"""Points by which an alternative must be ahead: less is noise of the sample."""


LONGER: Final = 2.5
"""Where pods end: how many times the pods of a round arrive."""
SAMPLED: Final = 8
"""And the arrivals between two looks at what is allocated."""
ENOUGH: Final = 64
"""The pods from which a demand is learned, at least."""
RELEARN: Final = 4
"""Changes for each pod after which it is learned again: two turnovers of the pods, or five times as many."""


def adapted(cluster: EngineCluster, policy: Policy) -> Policy:
    """Return the policy with the scores that pack this cluster best; chosen once for each demand mix."""
    if not policy.adapts or cluster.mix is EVEN:
        return policy
    key = ("adapted", policy)
    known = cluster.memo.pop(key, None)  # put back as the newest: the oldest are dropped
    last = known if isinstance(known, _Choice) and known.mix is cluster.mix else None
    if last is None or (cluster.turned_over and not last.ends):
        ends = cluster.turned_over
        last = _Choice(
            cluster.mix, ends, choose(cluster.nodes(), cluster.mix, alternatives(policy), ends=ends)
        )
    cluster.memo[key] = last
    return last.policy


class _Choice(NamedTuple):
    """What was chosen, and for which demand."""

    mix: DemandMix
    ends: bool
    """Whether pods end."""
    policy: Policy


def learn(cluster: EngineCluster, policy: Policy) -> None:
    """Expect the demand of the pods that run, and rehearse; without effect where a demand was stated.

    For quiet moments between decisions: most calls only compare two numbers, but the first with enough pods,
    and one after each few turnovers of these, takes some tenths of a second.
    """
    again = cluster.learn_again
    if not policy.adapts or (again is None and cluster.mix is not EVEN) or cluster.changes < (again or 0):
        return
    placements = cluster.placements()
    if len(placements) < ENOUGH:
        cluster.learn_again = cluster.changes + ENOUGH - len(placements)
        return
    cluster.learn_again = cluster.changes + RELEARN * len(placements)
    cluster.mix = typical_demand(placement.request for placement in placements)
    adapted(cluster, policy)


def choose(
    nodes: Sequence[NodeState], mix: DemandMix, policies: Sequence[Policy], *, ends: bool = False
) -> Policy:
    """Return the policy that allocates most in rehearsals; the first unless another is clearly ahead.

    `ends`: rehearse a cluster on which pods end.
    """
    figures: dict[Policy, list[float]] = {policy: [] for policy in policies}
    stage = _stage(nodes, mix)
    if stage is None:
        return policies[0]
    sample, pods = stage
    for number in range(ROUNDS):
        best = max((fmean(each) for each in figures.values() if each), default=0.0)
        arrivals = round(LONGER * pods) if ends else pods
        requests = list(_requests(mix, arrivals, Random(number)))  # noqa: S311 - a simulation, no secret
        for policy, each in figures.items():
            hopeful = len(each) == number and (not each or fmean(each) > best - HOPELESS)
            if hopeful or policy is policies[0]:
                each.append(rehearse(sample, mix, requests, policy, settled=pods if ends else None))
    ahead = {policy: fmean(each) for policy, each in figures.items() if len(each) == ROUNDS}
    winner = max(ahead, key=lambda policy: ahead[policy])
    return winner if ahead[winner] > ahead[policies[0]] + MARGIN else policies[0]


def rehearse(
    nodes: Sequence[NodeState],
    mix: DemandMix,
    requests: Sequence[Request],
    policy: Policy,
    settled: int | None = None,
) -> float:
    """Return the percentage of all accelerators that a policy allocates on these empty nodes.

    `settled`: pods end, on the mean after that many arrivals; the mean after these counts, not the end.
    """
    cluster, ends, idle = EngineCluster(nodes, mix=mix), _ends(len(requests), settled), []
    capacity = float(cluster.columns.idle_total.sum())
    due: dict[int, list[str]] = {}
    for number, request in enumerate(requests):
        for identity in due.pop(number, ()):
            cluster.release(identity)
        if _put(cluster, request, policy):
            due.setdefault(ends[number], []).append(request.id)
        if settled is not None and number >= settled and number % SAMPLED == 0:
            idle.append(float(cluster.columns.idle_total.sum()))
    left = fmean(idle) if idle else float(cluster.columns.idle_total.sum())
    return 100 * (1 - left / capacity)


def _ends(arrivals: int, settled: int | None) -> list[int]:
    """Return after which arrival each pod ends; -1: never."""
    if settled is None:
        return [-1] * arrivals
    random = Random(arrivals)  # noqa: S311 - a simulation, no secret
    return [at + 1 + int(random.expovariate(1 / settled)) for at in range(arrivals)]


def _put(cluster: EngineCluster, request: Request, policy: Policy) -> bool:
    """Place a request, and return whether there was a place."""
    cache = scores_of(cluster, request, policy)
    row = int(cache.score.argmax())
    if cache.score[row] == -np.inf:
        return False
    cluster.bind(cache.placement(row, request), strict=False)
    return True


def _stage(nodes: Sequence[NodeState], mix: DemandMix) -> tuple[list[NodeState], int] | None:
    """Return a sample of the nodes and the number of pods for it; None: nothing asks for accelerators."""
    devices = [device for node in nodes for device in node.devices if device.healthy]
    memory = fmean(device.memory for device in devices) if devices else 0.0
    size = sum(weight * _size(kind.demand, memory) for kind, weight in mix.kinds) / WHOLE
    if not devices or size <= 0:
        return None
    wanted = min(max(PODS * size / OVER, LEAST), MOST_PODS * size / OVER, len(devices))
    sample = _sample(nodes, wanted / len(devices))
    return sample, max(1, round(OVER * sum(len(node.devices) for node in sample) / size))


def _size(demand: Demand, memory: float) -> float:
    """Return what a pod takes of accelerators with that much memory, in thousandths of one."""
    if demand.compute is None and demand.memory is None:
        return demand.count * float(WHOLE)
    by_memory = WHOLE * (demand.memory or 0) / memory if memory else 0.0
    return demand.count * max(by_memory, float(demand.compute or 1))


def _sample(nodes: Sequence[NodeState], part: float) -> list[NodeState]:
    """Return about that part of the nodes, of each shape its part."""
    alike: dict[object, list[NodeState]] = {}
    for node in nodes:
        shape = (len(node.devices), node.cpu, node.memory, [device.model for device in node.devices])
        alike.setdefault(repr(shape), []).append(node)
    ordered = [node for _, group in sorted(alike.items(), key=lambda item: repr(item[0])) for node in group]
    wanted = max(1, round(part * len(ordered)))
    return [ordered[int((at + 0.5) * len(ordered) / wanted)] for at in range(wanted)]


def _requests(mix: DemandMix, pods: int, random: Random) -> Iterator[Request]:
    """Yield that many pods in random order, of each kind as many as the mix says."""
    ends = list(accumulate(weight for _, weight in mix.kinds))
    offset = random.random()
    at, drawn = 0, []
    for number in range(pods):
        while at < len(ends) - 1 and (number + offset) / pods > ends[at]:
            at += 1
        drawn.append(mix.kinds[at][0])
    random.shuffle(drawn)
    for number, kind in enumerate(drawn):
        yield Request(f"rehearsal-{number}", cpu=kind.cpu, memory=kind.memory, demand=kind.demand)
