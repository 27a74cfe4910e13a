"""Leader election: the replica that holds and renews the Lease decides. Pure.

A replica leads from the moment its write of the Lease is answered until `deadline` after that write was sent,
by a clock that also counts while the machine sleeps and that no person sets. So a leader that cannot renew
stops by itself before another may begin. Another replica begins when it has seen no change of the Lease for
its whole duration, by its own clock: the times written in it are for people. The same holds where the Lease
is deleted, or another client removed its holder: the last leader may not know yet.

The Lease also carries the leader's in-flight set (see `in_flight.py`). So only the leader can add to the set,
and a replica that acquires the Lease has read the last one. It names the formats that leaders have written
(see `formats.py`): a replica that cannot read one of them does not acquire the Lease.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from fairlead.cache.leader_marks import LeaderMarks
from fairlead.cluster.http import codec
from fairlead.cluster.kinds import LEASES
from fairlead.cluster.meta import Metadata, replace
from fairlead.cluster.objects import Lease, LeaseSpec
from fairlead.cluster.times import format_micro
from fairlead.errors import ClusterError, ConflictError, NotFoundError
from fairlead.keys import FORMATS
from fairlead.serve.machine.clock import MachineClock
from fairlead.serve.machine.flow import Flow, Flows, Lock, Sleep
from fairlead.serve.scheduler.effects import Get, RenewLease
from fairlead.serve.scheduler.leader import formats, in_flight
from fairlead.serve.scheduler.leader.in_flight import EVERYTHING, NOTHING, InFlightSet
from fairlead.settings.scheduler import LeaderElectionConfig

Action = Literal["create", "acquire", "renew", "wait"]
_NEVER: Final = float("-inf")


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """The Lease as last seen, and since when it has been so."""

    version: str | None = None
    """Empty: the Lease did not exist; None: this replica has not read it yet."""
    since: float = _NEVER

    def observe(self, version: str, now: float) -> "ObservedLease":
        """Return what is known after another read of the Lease."""
        return self if version == self.version else ObservedLease(version, now)


@dataclass(frozen=True, slots=True)
class LeaderTerm:
    """The time for which one replica leads."""

    epoch: int
    """Counts the terms of all replicas: the higher one is the later one."""
    clean: bool
    """The previous leader wrote that all its writes are finished; else it may have stopped in the middle."""
    previous_in_flight: InFlightSet = EVERYTHING
    """The objects for which the previous leader may have left something half done."""


def next_action(lease: Lease | None, me: str, observed: ObservedLease, now: float, duration: float) -> Action:
    """Return what to do about the Lease, while this replica does not lead."""
    stale = now - observed.since >= duration
    if lease is None:
        return "create" if stale else "wait"
    mine = lease.spec.holder_identity == me  # and yet we do not lead: we came too late, so it is a new term
    return "acquire" if mine or stale or is_released(lease) else "wait"


def is_released(lease: Lease | None) -> bool:
    """Say whether the previous leader finished; any client can remove the holder, so that is not enough."""
    return lease is not None and not lease.spec.holder_identity and _in_flight_of(lease) == NOTHING


def _in_flight_of(lease: Lease) -> InFlightSet:
    return in_flight.parse(lease.metadata.annotations.get(in_flight.ANNOTATION, ""))


class LeaderElection:
    """One replica's hold of the Lease."""

    def __init__(
        self,
        flows: Flows,
        clock: MachineClock,
        me: str,
        config: LeaderElectionConfig,
        marks: LeaderMarks | None = None,
        has_bound_pods: Callable[[], bool] = lambda: False,
    ) -> None:
        self._marks = marks or LeaderMarks()
        """The marks on pods: where the Lease was deleted, epochs would begin at 1 again."""
        self._has_bound_pods = has_bound_pods
        """Whether a replica has ever bound a pod: then a Lease existed, and a leader may still run."""
        self._flows = flows
        self._clock = clock
        self._me = me
        self._config = config
        self._observed = ObservedLease()
        self._lease: Lease | None = None
        self._leads_until = _NEVER
        self._term: LeaderTerm | None = None
        self._make_in_flight: Callable[[], InFlightSet] | None = None
        """Makes this term's in-flight set; None: the previous leader's set is not fenced yet."""
        self._possible_in_flight: tuple[InFlightSet, ...] = ()
        """The sets that the Lease may carry: the last one that was answered, and those sent since."""
        self._lock = Lock()
        self._resigned = False
        self.annotations: Mapping[str, str] = {}
        """The other annotations that the Lease carries while this replica holds it."""
        self.last_error = ""
        """Why the last read or write of the Lease failed; empty where it succeeded."""
        self.barred = ""
        """Why this replica does not acquire a free Lease: a newer one wrote a format that it cannot read."""

    @property
    def term(self) -> LeaderTerm | None:
        """The term of this replica; None while it does not lead."""
        return self._term if self._clock.now < self._leads_until else None

    def leads(self, epoch: int) -> bool:
        """Say whether this is still the term of that epoch."""
        term = self.term
        return term is not None and term.epoch == epoch

    def covers(self, items: Iterable[Metadata]) -> bool:
        """Say whether all of these are in the in-flight set, whichever of the last writes took effect."""
        return bool(self._possible_in_flight) and all(
            one.covers(item) for item in items for one in self._possible_in_flight
        )

    def run(self) -> Flow[None]:
        """Acquire and renew the Lease, for ever."""
        while True:
            try:
                yield from self.try_acquire_or_renew()
                self.last_error = ""
            except ClusterError as error:
                self.last_error = str(error)
            yield Sleep(self._config.period)

    def try_acquire_or_renew(self) -> Flow[None]:
        """Read the Lease once, and acquire or renew it where this replica may."""
        yield self._lock
        try:
            if not self._resigned:
                yield from self._try_acquire_or_renew()
        finally:
            self._flows.release(self._lock)

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

    def resign(self, finished: int | None = None) -> Flow[None]:
        """Stop leading; where all writes of the epoch `finished` have ended, another may begin at once."""
        self._resigned = True
        yield self._lock
        try:
            lease, held = self._lease, finished is not None and self.leads(finished)
            self._leads_until, self._term = _NEVER, None
            if held and lease is not None:
                notes = {**lease.metadata.annotations, in_flight.ANNOTATION: NOTHING.text()}
                spec = replace(lease.spec, holder_identity="")
                free = replace(lease, spec=spec, metadata=replace(lease.metadata, annotations=notes))
                yield self._request(free, new=False)
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

    def _try_acquire_or_renew(self) -> Flow[None]:
        term = self.term
        # A pod with a higher epoch shows that another replica led, whatever the Lease says: begin a new term.
        over = term is None or self._marks.epoch > term.epoch or self._marks.newer
        if not over and self._lease is not None:
            try:
                yield from self._write(self._lease, "renew")  # without a read: it must not be late
            except (ConflictError, NotFoundError):
                self._leads_until = _NEVER  # another client changed the Lease
            else:
                return
        lease = yield from self._read()
        now = self._clock.now
        first = lease is None and self._observed.version is None and not self._has_bound_pods()
        version = lease.metadata.resource_version if lease else ""
        self._observed = self._observed.observe(version, _NEVER if first else now)
        action = next_action(lease, self._me, self._observed, now, self._config.duration)
        self.barred = self._unreadable(lease) if action != "wait" else ""
        if action != "wait" and not self.barred:
            yield from self._write(lease, action)

    def _unreadable(self, lease: Lease | None) -> str:
        """Return why this replica must not lead; empty where it reads everything that leaders wrote."""
        notes = lease.metadata.annotations if lease is not None else {}
        if word := formats.unreadable(notes.get(FORMATS, "")):
            return f"a newer leader has written the format {word}; this replica writes {formats.names()}"
        newer = in_flight.IN_FLIGHT_SETS.newer(notes.get(in_flight.ANNOTATION, ""))
        return str(newer) if newer is not None else self._marks.newer

    def _read(self) -> Flow[Lease | None]:
        path = LEASES.path(self._config.namespace, self._config.name)
        try:
            answer = yield Get("GET", path, within=self._config.deadline / 2)
        except NotFoundError:
            return None
        return codec.decode(LEASES, answer)

    def _write(self, lease: Lease | None, action: Action) -> Flow[None]:
        sent = self._clock.now
        listed = self._make_in_flight() if self._make_in_flight is not None and action == "renew" else None
        wanted = self._renewed(lease, action, listed)
        if listed is not None:
            self._possible_in_flight = (*self._possible_in_flight, listed)
        kept = codec.decode(LEASES, (yield self._request(wanted, new=lease is None)))
        self._lease, self._leads_until = kept, sent + self._config.deadline
        self._observed = ObservedLease(kept.metadata.resource_version, sent)
        self._possible_in_flight = (listed,) if listed is not None else ()
        if action != "renew":
            self._make_in_flight = None
            self._term = LeaderTerm(kept.spec.lease_transitions, is_released(lease), _in_flight_of(kept))

    def _request(self, lease: Lease, *, new: bool) -> RenewLease:
        where, within = self._config.namespace, self._config.deadline / 2
        method, name = ("POST", "") if new else ("PUT", self._config.name)
        return RenewLease(method, LEASES.path(where, name), codec.to_document(LEASES, lease), within=within)

    def _renewed(self, lease: Lease | None, action: Action, listed: InFlightSet | None) -> Lease:
        now = format_micro(self._clock.wall)
        before = lease or Lease(metadata=Metadata(name=self._config.name, namespace=self._config.namespace))
        new = action != "renew"
        epoch = max(before.spec.lease_transitions, self._marks.epoch if new else 0)
        spec = LeaseSpec(
            holder_identity=self._me,
            lease_duration_seconds=round(self._config.duration),
            acquire_time=now if new else before.spec.acquire_time,
            renew_time=now,
            lease_transitions=epoch + 1 if new else epoch,
        )
        notes = {**before.metadata.annotations, **self.annotations, FORMATS: formats.names()}
        if listed is not None:
            notes[in_flight.ANNOTATION] = listed.text()
        return replace(before, spec=spec, metadata=replace(before.metadata, annotations=notes))
