"""What a new leader does before its first decision: observe every write, and fence what may be half done.

A leader that was stopped in the middle may resume at any time and send what it had decided. After failover,
each of its writes that would allocate part of a device fails: the write is conditional on a version that no
longer exists, or creates a name that is taken. The mark on a pod also shows that the previous term is over.
Only pods in the previous leader's in-flight set are fenced: it cannot have been about to allocate to others.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.translator import asks_for_devices
from fairlead.cache.types import CLAIMS, LEADER_EPOCH, PODS, LiveClaim, LivePod
from fairlead.cluster.times import format_time
from fairlead.manifest.pod.claim_names import claims_named
from fairlead.serve.machine.clock import MachineClock
from fairlead.serve.machine.flow import Flow, Sleep
from fairlead.serve.scheduler.bind import writes
from fairlead.serve.scheduler.bind.binder import Binder
from fairlead.serve.scheduler.bind.evict import unmark
from fairlead.serve.scheduler.bind.requests import Fences, gather, send_with_retry
from fairlead.serve.scheduler.effects import ListObjects
from fairlead.serve.scheduler.leader.election import SchedulerTerm
from fairlead.serve.scheduler.leader.in_flight import InFlightSet

_PAUSE: Final = 0.02
"""Seconds between checks of whether the watches have caught up."""
_CHECKS: Final = 25
"""Checks after which the objects are listed again: some may be deleted."""


@dataclass(frozen=True, slots=True)
class Failover:
    """Takes over from the previous leader."""

    cache: SchedulerCache
    binder: Binder
    fences: Fences
    clock: MachineClock
    scheduler: str
    claims: bool
    """Whether the API server serves ResourceClaims."""

    def fence_previous(self, term: SchedulerTerm) -> Flow[int]:
        """Return how many pending pods were fenced, once decisions are safe.

        Where the previous leader finished everything, the cache only has to observe its writes.
        """
        objects = yield from self._list()
        if term.clean:
            yield from self._wait_until_observed(objects)
            return 0
        pods = [
            object_
            for object_ in objects
            if isinstance(object_, LivePod) and self._may_be_in_flight(object_, term.previous_in_flight)
        ]
        victims = [object_ for object_ in objects if isinstance(object_, LivePod) and object_.is_victim]
        open_claims = [object_ for object_ in objects if isinstance(object_, LiveClaim) and _is_open(object_)]
        ended = yield from gather([self._fence(pod, term.epoch) for pod in pods])
        now = format_time(self.clock.wall)
        why = f"leader {term.epoch} decides again"  # the previous leader's eviction would come too late
        yield from gather([self.fences.fence(unmark(victim, now, why)) for victim in victims])
        fenced = yield from gather(
            [self.fences.fence_claim(open_claim.key, term.epoch) for open_claim in open_claims]
        )
        changed = [each for part in ended for each in part] + [each for each in fenced if each is not None]
        latest = {each.metadata.uid: each for each in (*objects, *changed)}
        yield from self._wait_until_observed(latest.values())
        return len(pods)

    def _may_be_in_flight(self, pod: LivePod, left: InFlightSet) -> bool:
        return pod.waits_for(self.scheduler) and left.covers(pod.metadata) and asks_for_devices(pod)

    def _fence(self, pod: LivePod, epoch: int) -> Flow[list[LivePod | LiveClaim]]:
        """Fence one pod and its claims, and return them as they are now."""
        now = yield from self.fences.fence_pod(pod, epoch)
        if now is None:
            return []  # it is gone
        if now.spec.node_name:
            return [now]
        own = now.status.extended_resource_claim_status.resource_claim_name
        keys = [*claims_named(now).values()]
        if own and (yield from send_with_retry(writes.create_claim(now, ()))) is None:
            keys.insert(0, (now.metadata.namespace, own))
        objects: list[LivePod | LiveClaim] = [now]
        for key in keys:
            claim = yield from self.fences.fence_claim(key, epoch)
            objects += [claim] if claim is not None else []
            if claim is not None and claim.made_for(now.metadata.uid) and claim.results:
                yield from self.binder.deallocate(claim, now, epoch)
        return objects

    def _wait_until_observed(self, objects: Iterable[LivePod | LiveClaim]) -> Flow[None]:
        """Wait until the cache is no older than any of these objects; deleted ones are skipped."""
        left = list(objects)
        while True:
            for _ in range(_CHECKS):
                left = [each for each in left if not self.cache.has_seen(each)]
                if not left:
                    return
                yield Sleep(_PAUSE)
            there = {each.metadata.uid for each in (yield from self._list())}
            left = [each for each in left if each.metadata.uid in there]

    def _list(self) -> Flow[list[LivePod | LiveClaim]]:
        claims = (yield ListObjects(CLAIMS.plural)) if self.claims else ()
        return [*claims, *(yield ListObjects(PODS.plural))]


def _is_open(claim: LiveClaim) -> bool:
    """Say whether a leader may be about to allocate a claim, whatever became of its pod."""
    return LEADER_EPOCH in claim.metadata.annotations and not claim.results
