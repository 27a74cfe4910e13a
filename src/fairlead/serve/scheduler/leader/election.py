"""The scheduler's leader election: the Lease also carries the leader's in-flight set. Pure.

The Lease carries the set (see `in_flight.py`), so only the leader can add to it, and a replica that acquires
the Lease has read the last one. It names the formats that leaders have written (see `formats.py`): a replica
that cannot read one of them does not acquire the Lease.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fairlead.cache.leader_marks import LeaderMarks
from fairlead.cluster.meta import Metadata
from fairlead.cluster.objects import Lease
from fairlead.errors import ConflictError, NotFoundError
from fairlead.keys import FORMATS
from fairlead.serve.leader import election
from fairlead.serve.leader.election import Action, LeaderElection
from fairlead.serve.machine.clock import MachineClock
from fairlead.serve.machine.flow import Flow, Flows
from fairlead.serve.scheduler.leader import formats, in_flight
from fairlead.serve.scheduler.leader.in_flight import EVERYTHING, NOTHING, InFlightSet
from fairlead.settings.leader import LeaderElectionConfig

_NEVER: Final = float("-inf")


@dataclass(frozen=True)
class SchedulerTerm(election.LeaderTerm):
    """The time for which one scheduler leads."""

    previous_in_flight: InFlightSet = EVERYTHING
    """The objects for which the previous leader may have left something half done."""


def _in_flight_of(lease: Lease) -> InFlightSet:
    return in_flight.parse(lease.metadata.annotations.get(in_flight.ANNOTATION, ""))


class SchedulerElection(LeaderElection):
    """One scheduler's hold of the Lease."""

    def __init__(
        self,
        flows: Flows,
        clock: MachineClock,
        me: str,
        config: LeaderElectionConfig,
        marks: LeaderMarks | None = None,
        has_bound_pods: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(flows, clock, me, config)
        self._marks = marks or LeaderMarks()
        """The marks on pods: where the Lease was deleted, epochs would begin at 1 again."""
        self._has_bound_pods = has_bound_pods
        """Whether a replica has ever bound a pod: then a Lease existed, and a leader may still run."""
        self._make_in_flight: Callable[[], InFlightSet] | None = None
        """Makes this term's in-flight set; None: the previous leader's set is not fenced yet."""
        self._sent: InFlightSet | None = None
        """The set in the write of the Lease that is being sent; None: it leaves the last one."""
        self._possible_in_flight: tuple[InFlightSet, ...] = ()
        """The sets that the Lease may carry: the last one that was answered, and those sent since."""

    @property
    def term(self) -> SchedulerTerm | None:
        """The term of this replica; None while it does not lead."""
        term = super().term
        assert term is None or isinstance(term, SchedulerTerm)
        return term

    def covers(self, items: Iterable[Metadata]) -> bool:
        """Say whether all of these are in the in-flight set, whichever of the last writes took effect."""
        return bool(self._possible_in_flight) and all(
            one.covers(item) for item in items for one in self._possible_in_flight
        )

    def publish_in_flight(self, epoch: int, wanted: Callable[[], InFlightSet]) -> Flow[None]:
        """Write the in-flight set that `wanted` returns, now and with every renewal; raise what fails."""
        yield self._lock
        try:
            if self.leads(epoch):
                self._make_in_flight = wanted
            yield from self._write_in_flight(epoch)
        finally:
            self._flows.release(self._lock)

    def extend(self, epoch: int, items: Sequence[Metadata]) -> Flow[None]:
        """Add these to the in-flight set; flows that do so at the same time share one write."""
        yield self._lock
        try:
            if not (self.leads(epoch) and self.covers(items)):
                yield from self._write_in_flight(epoch)
        finally:
            self._flows.release(self._lock)

    def _write_in_flight(self, epoch: int) -> Flow[None]:
        if not self.leads(epoch) or self._lease is None or self._make_in_flight is None:
            raise ConflictError("another replica leads now")
        try:
            yield from self._write(self._lease, "renew")
        except (ConflictError, NotFoundError):
            self._leads_until = _NEVER  # another client changed the Lease
            raise

    def _is_over(self, term: election.LeaderTerm) -> bool:
        # A pod with a higher epoch shows that another replica led: begin a new term.
        return self._marks.epoch > term.epoch or bool(self._marks.newer)

    def _may_be_led(self) -> bool:
        return self._has_bound_pods()

    def _obstacle(self, lease: Lease | None) -> str:
        notes = lease.metadata.annotations if lease is not None else {}
        if word := formats.unreadable(notes.get(FORMATS, "")):
            return f"a newer leader has written the format {word}; this replica writes {formats.names()}"
        newer = in_flight.IN_FLIGHT_SETS.newer(notes.get(in_flight.ANNOTATION, ""))
        return str(newer) if newer is not None else self._marks.newer

    def _lowest_epoch(self) -> int:
        return self._marks.epoch

    def _notes(self, action: Action) -> Mapping[str, str]:
        make = self._make_in_flight if action == "renew" else None
        self._sent = make() if make is not None else None
        notes = {FORMATS: formats.names()}
        if self._sent is not None:
            self._possible_in_flight = (*self._possible_in_flight, self._sent)
            notes[in_flight.ANNOTATION] = self._sent.text()
        return notes

    def _released_notes(self, lease: Lease) -> Mapping[str, str]:
        return {in_flight.ANNOTATION: NOTHING.text()}

    def _is_released(self, lease: Lease) -> bool:
        return not lease.spec.holder_identity and _in_flight_of(lease) == NOTHING

    def _on_written(self, kept: Lease, before: Lease | None, action: Action) -> None:
        self._possible_in_flight = (self._sent,) if self._sent is not None else ()
        if action != "renew":
            self._make_in_flight = None
            released = before is not None and self._is_released(before)
            self._term = SchedulerTerm(kept.spec.lease_transitions, released, _in_flight_of(kept))
