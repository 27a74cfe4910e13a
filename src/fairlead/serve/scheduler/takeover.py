"""What a new leader does before its first decision: know all that was done, and end what may be half done.

A leader that was stopped in the middle may wake at any time and go on with what it had decided. After this,
each of its writes that would give away part of a device fails: it is conditional on a version that is no
more, or wants a name that is taken. The mark on a pod also tells it that its turn is over.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from fairlead.cluster.api import Cluster
from fairlead.serve.scheduler import writes
from fairlead.serve.scheduler.act import Hands, read
from fairlead.serve.scheduler.fold import Fold
from fairlead.serve.scheduler.reading import asks_for_devices
from fairlead.serve.scheduler.seen import CLAIMS, PODS, Claim, Pod

_PAUSE: Final = 0.02
"""Seconds between looks at whether the watches have come so far."""
_LOOKS: Final = 100
"""Looks after which the cluster is asked what is still there."""


async def take_over(
    cluster: Cluster, fold: Fold, hands: Hands, turn: int, *, clean: bool, claims: bool, scheduler: str
) -> int:
    """Return how many waiting pods had to be marked, once decisions are safe.

    `clean`: the leader before finished all it had begun; then only what it did must be known here. `claims`:
    whether the cluster has any.
    """
    objects = await _listed(cluster, claims=claims)
    if clean:
        await _until_seen(cluster, fold, objects, claims=claims)
        return 0
    pods = [each for each in objects if isinstance(each, Pod)]
    waiting = [pod for pod in pods if pod.waits_for(scheduler) and asks_for_devices(pod)]
    ended = await asyncio.gather(*(_end(hands, pod, turn) for pod in waiting))
    latest = {each.metadata.uid: each for part in (objects, *ended) for each in part}
    await _until_seen(cluster, fold, latest.values(), claims=claims)
    return len(waiting)


async def _end(hands: Hands, pod: Pod, turn: int) -> list[Pod | Claim]:
    """End what may be half done for one pod, and return what it led to."""
    answer = await hands.insist(writes.touch_pod(pod, turn))
    if answer is None:
        return []  # it is gone
    now = read(Pod, answer)
    if now.spec.node_name:
        return [now]
    namespace, pointed = now.metadata.namespace, now.status.extended_resource_claim_status.resource_claim_name
    own = [] if not pointed or await hands.insist(writes.make(now, ())) is not None else [pointed]
    found: list[Pod | Claim] = [now]
    for name in (*own, *writes.named(now)):
        answer = await hands.insist(writes.touch_claim(namespace, name, turn))
        if answer is not None:
            claim = read(Claim, answer)
            found.append(claim)
            if claim.own and claim.results:
                await hands.release(claim, now)
    return found


async def _until_seen(cluster: Cluster, fold: Fold, objects: Iterable[Pod | Claim], *, claims: bool) -> None:
    """Wait until what the watches have told is no older than any of these; what is gone is not waited for."""
    left = list(objects)
    while True:
        for _ in range(_LOOKS):
            left = [each for each in left if not fold.has_seen(each)]
            if not left:
                return
            await asyncio.sleep(_PAUSE)
        there = {each.metadata.uid for each in await _listed(cluster, claims=claims)}
        left = [each for each in left if each.metadata.uid in there]


async def _listed(cluster: Cluster, *, claims: bool) -> list[Pod | Claim]:
    given = (await cluster.list(CLAIMS)).items if claims else ()
    return [*given, *(await cluster.list(PODS)).items]
