"""Keep the in-flight set: it holds a pod while part of a device is allocated to it or deallocated. Pure."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Final, TypeVar

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.types import LivePod
from fairlead.cluster.times import format_time
from fairlead.serve.machine.clock import MachineClock
from fairlead.serve.machine.flow import Flow
from fairlead.serve.scheduler.cycle.queue import SchedulingQueue
from fairlead.serve.scheduler.leader.election import SchedulerElection
from fairlead.serve.scheduler.leader.in_flight import MOST, InFlightSet, choose

AHEAD: Final = timedelta(seconds=5)
"""How far into the future the set covers new pods: until after the next renewal."""
T = TypeVar("T")


class InFlightTracker:
    """The pods that are being bound, and the in-flight set that follows from them."""

    def __init__(
        self, election: SchedulerElection, cache: SchedulerCache, queue: SchedulingQueue, clock: MachineClock
    ) -> None:
        self._election = election
        self._cache = cache
        self._queue = queue
        self._clock = clock
        self._busy: Counter[str] = Counter()

    def begin_term(self, epoch: int) -> Flow[None]:
        """Begin a term's own set: everything that the previous leader left is fenced."""
        return self._election.publish_in_flight(epoch, self.current)

    def track(self, pods: Sequence[LivePod], epoch: int, flow: Flow[T]) -> Flow[T]:
        """Run a flow that allocates devices to pods, or deallocates them, while the pods are in the set.

        The set covers new pods by their age; others cost a write, one for many.
        """
        items = [pod.metadata for pod in pods]
        uids = [item.uid for item in items]
        self._busy.update(uids)
        try:
            if items and not (self._election.leads(epoch) and self._election.covers(items)):
                yield from self._election.extend(epoch, items)
            return (yield from flow)
        finally:
            self._busy.subtract(uids)
            self._busy += Counter()  # drops the uids whose count is zero

    def current(self) -> InFlightSet:
        """Return the set as it should be now."""
        until = format_time(self._clock.wall + AHEAD)
        requesting = self._queue.requesting_devices
        if len(requesting) <= MOST:
            return choose((), self._busy, (), until)
        pending = [pod.metadata for uid in requesting if (pod := self._cache.pod(uid)) is not None]
        queued = [uid for uid in self._queue.next_active(2 * MOST) if uid in requesting]
        return choose(pending, self._busy, queued[:MOST], until)
