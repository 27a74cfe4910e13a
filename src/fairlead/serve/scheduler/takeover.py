"""What a new leader does before its first decision: know all that was done, and end what may be half done.

A leader that was stopped in the middle may wake at any time and go on with what it had decided. After this,
each of its writes that would give away part of a device fails: it is conditional on a version that is no
more, or wants a name that is taken. The mark on a pod also tells it that its turn is over. Only those on its
roster are looked at: to nobody else can it have been about to give something.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.translator import asks_for_devices
from fairlead.cache.types import CLAIMS, PODS, TURN, Claim, Pod
from fairlead.cluster.api import Cluster
from fairlead.cluster.times import format_time
from fairlead.serve.scheduler import writes
from fairlead.serve.scheduler.act import Hands
from fairlead.serve.scheduler.evict import unmark
from fairlead.serve.scheduler.lead import Reign, today
from fairlead.serve.scheduler.roster import Roster
from fairlead.serve.scheduler.writes import Write

_PAUSE: Final = 0.02
"""Seconds between looks at whether the watches have come so far."""
_LOOKS: Final = 25
"""Looks after which the cluster is asked what is still there."""


async def take_over(
    cluster: Cluster, cache: SchedulerCache, hands: Hands, reign: Reign, *, claims: bool, scheduler: str
) -> int:
    """Return how many waiting pods had to be marked, once decisions are safe; `claims`: the cluster has any.

    Where the leader before finished all it had begun, only what it did must be known here.
    """
    objects = await _listed(cluster, claims=claims)
    if reign.clean:
        await _until_seen(cluster, cache, hands, objects, claims=claims)
        return 0
    pods = [each for each in objects if isinstance(each, Pod) and _begun(each, reign.left, scheduler)]
    victims = [each for each in objects if isinstance(each, Pod) and each.is_victim]
    loose = [each for each in objects if isinstance(each, Claim) and _open(each)]
    ended = await asyncio.gather(*(_end(hands, pod, reign.turn) for pod in pods))
    await asyncio.gather(*(hands.fence(_spared(each, reign.turn)) for each in victims))
    touched = await asyncio.gather(*(hands.touch(claim.key, reign.turn) for claim in loose))
    changed = [each for part in ended for each in part] + [each for each in touched if each is not None]
    latest = {each.metadata.uid: each for each in (*objects, *changed)}
    await _until_seen(cluster, cache, hands, latest.values(), claims=claims)
    return len(pods)


def _begun(pod: Pod, left: Roster, scheduler: str) -> bool:
    """Say whether somebody may have begun to give a pod something."""
    return pod.waits_for(scheduler) and left.covers(pod.metadata) and asks_for_devices(pod)


def _spared(victim: Pod, turn: int) -> Write:
    """Take the mark off a pod that the leader before was about to evict: its eviction would come too late."""
    return unmark(victim, format_time(today()), f"leader {turn} decides again")


def _open(claim: Claim) -> bool:
    """Say whether one of us may be about to give a claim something, whatever became of the pod it is for."""
    return TURN in claim.metadata.annotations and not claim.results


async def _end(hands: Hands, pod: Pod, turn: int) -> list[Pod | Claim]:
    """End what may be half done for one pod, and return what it led to."""
    now = await hands.touch_pod(pod, turn)
    if now is None:
        return []  # it is gone
    if now.spec.node_name:
        return [now]
    namespace, pointed = now.metadata.namespace, now.status.extended_resource_claim_status.resource_claim_name
    own = [] if not pointed or await hands.insist(writes.make(now, ())) is not None else [pointed]
    found: list[Pod | Claim] = [now]
    for name in (*own, *writes.named(now)):
        claim = await hands.touch((namespace, name), turn)
        found += [claim] if claim is not None else []
        if claim is not None and claim.made_for(now.metadata.uid) and claim.results:
            await hands.release(claim, now, turn)
    return found


async def _until_seen(
    cluster: Cluster, cache: SchedulerCache, hands: Hands, objects: Iterable[Pod | Claim], *, claims: bool
) -> None:
    """Wait until what the watches have told is no older than any of these; what is gone is not waited for."""
    left = list(objects)
    while True:
        for _ in range(_LOOKS):
            left = [each for each in left if not cache.has_seen(each)]
            if not left:
                return
            await hands.pause(_PAUSE)
        there = {each.metadata.uid for each in await _listed(cluster, claims=claims)}
        left = [each for each in left if each.metadata.uid in there]


async def _listed(cluster: Cluster, *, claims: bool) -> list[Pod | Claim]:
    given = (await cluster.list(CLAIMS)).items if claims else ()
    return [*given, *(await cluster.list(PODS)).items]
