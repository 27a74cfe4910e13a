"""Leader election: the replica that holds and renews the Lease decides. Pure.

A replica leads from the moment its write of the Lease is answered until `deadline` after that write was sent,
by a clock that also counts while the machine sleeps and that no person sets. So a leader that cannot renew
stops by itself before another may begin. Another replica begins when it has seen no change of the Lease for
its whole duration, by its own clock: the times written in it are for people. The same holds where the Lease
is deleted, or another client removed its holder: the last leader may not know yet.

A program whose Lease carries more than this overrides the methods below `What a program adds`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from fairlead.cluster.http import codec
from fairlead.cluster.kinds import LEASES
from fairlead.cluster.meta import Metadata, replace
from fairlead.cluster.objects import Lease, LeaseSpec
from fairlead.cluster.times import format_micro
from fairlead.errors import ClusterError, ConflictError, NotFoundError
from fairlead.keys import RELEASED
from fairlead.serve.machine.clock import MachineClock
from fairlead.serve.machine.flow import Flow, Flows, Lock, Sleep
from fairlead.serve.machine.requests import ApiRequest, Get
from fairlead.settings.leader import LeaderElectionConfig

Action = Literal["create", "acquire", "renew", "wait"]
_NEVER: Final = float("-inf")


class RenewLease(ApiRequest):
    """Acquire, renew or release the leader's Lease."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """The Lease as last seen, and since when it has been so."""

    version: str | None = None
    """Empty: the Lease did not exist; None: this replica has not read it yet."""
    since: float = _NEVER

    def observe(self, version: str, now: float) -> "ObservedLease":
        """Return what is known after another read of the Lease."""
        return self if version == self.version else ObservedLease(version, now)


@dataclass(frozen=True)  # without slots: a program's own term extends it
class LeaderTerm:
    """The time for which one replica leads."""

    epoch: int
    """Counts the terms of all replicas: the higher one is the later one."""
    clean: bool
    """The previous leader wrote that all its writes are finished; else it may have stopped in the middle."""


def next_action(lease: Lease | None, me: str, *, stale: bool, released: bool) -> Action:
    """Return what to do about the Lease, while this replica does not lead.

    `stale`: the Lease has not changed for its whole duration; `released`: the previous leader finished.
    """
    if lease is None:
        return "create" if stale else "wait"
    mine = lease.spec.holder_identity == me  # and yet we do not lead: we came too late, so it is a new term
    return "acquire" if mine or stale or released else "wait"


class LeaderElection:
    """One replica's hold of the Lease."""

    def __init__(self, flows: Flows, clock: MachineClock, me: str, config: LeaderElectionConfig) -> None:
        self._flows = flows
        self._clock = clock
        self._me = me
        self._config = config
        self._observed = ObservedLease()
        self._lease: Lease | None = None
        self._leads_until = _NEVER
        self._term: LeaderTerm | None = None
        self._lock = Lock()
        self._resigned = False
        self.annotations: Mapping[str, str] = {}
        """The other annotations that the Lease carries while this replica holds it."""
        self.last_error = ""
        """Why the last read or write of the Lease failed; empty where it succeeded."""
        self.barred = ""
        """Why this replica does not acquire a free Lease."""

    @property
    def term(self) -> LeaderTerm | None:
        """The term of this replica; None while it does not lead."""
        return self._term if self._clock.now < self._leads_until else None

    def leads(self, epoch: int) -> bool:
        """Say whether this is still the term of that epoch."""
        term = self.term
        return term is not None and term.epoch == epoch

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

    def resign(self, finished: int | None = None) -> Flow[None]:
        """Stop leading; where all writes of the epoch `finished` have ended, another may begin at once."""
        self._resigned = True
        yield self._lock
        try:
            lease, held = self._lease, finished is not None and self.leads(finished)
            self._leads_until, self._term = _NEVER, None
            if held and lease is not None:
                notes = {**lease.metadata.annotations, **self._released_notes(lease)}
                spec = replace(lease.spec, holder_identity="")
                free = replace(lease, spec=spec, metadata=replace(lease.metadata, annotations=notes))
                yield self._request(free, new=False)
        finally:
            self._flows.release(self._lock)

    # What a program adds

    def _is_over(self, term: LeaderTerm) -> bool:
        """Say whether another replica has led since, whatever the Lease says."""
        return False

    def _may_be_led(self) -> bool:
        """Say whether a leader may run although no Lease was ever seen: it may have been deleted."""
        return False

    def _obstacle(self, lease: Lease | None) -> str:
        """Return why this replica must not lead; empty where nothing is in its way."""
        return ""

    def _lowest_epoch(self) -> int:
        """Return the epoch that a new term must exceed, whatever the Lease says."""
        return 0

    def _notes(self, action: Action) -> Mapping[str, str]:
        """Return further annotations of the write that is about to be sent."""
        return {}

    def _released_notes(self, lease: Lease) -> Mapping[str, str]:
        """Return the annotations by which a leader shows that all its writes have ended."""
        return {RELEASED: str(lease.spec.lease_transitions)}

    def _is_released(self, lease: Lease) -> bool:
        """Say whether the last leader has shown so; any client can remove the holder: that is not enough."""
        notes = lease.metadata.annotations
        return not lease.spec.holder_identity and notes.get(RELEASED) == str(lease.spec.lease_transitions)

    def _on_written(self, kept: Lease, before: Lease | None, action: Action) -> None:
        """Note the answer to a write of the Lease; every write but a renewal begins a term."""
        if action != "renew":
            released = before is not None and self._is_released(before)
            self._term = LeaderTerm(kept.spec.lease_transitions, released)

    # Reads and writes

    def _try_acquire_or_renew(self) -> Flow[None]:
        term = self.term
        if term is not None and not self._is_over(term) and self._lease is not None:
            try:
                yield from self._write(self._lease, "renew")  # without a read: it must not be late
            except (ConflictError, NotFoundError):
                self._leads_until = _NEVER  # another client changed the Lease
            else:
                return
        lease = yield from self._read()
        now = self._clock.now
        first = lease is None and self._observed.version is None and not self._may_be_led()
        version = lease.metadata.resource_version if lease else ""
        self._observed = self._observed.observe(version, _NEVER if first else now)
        stale = now - self._observed.since >= self._config.duration
        released = lease is not None and self._is_released(lease)
        action = next_action(lease, self._me, stale=stale, released=released)
        self.barred = self._obstacle(lease) if action != "wait" else ""
        if action != "wait" and not self.barred:
            yield from self._write(lease, action)

    def _read(self) -> Flow[Lease | None]:
        path = LEASES.path(self._config.namespace, self._config.name)
        try:
            answer = yield Get("GET", path, within=self._config.deadline / 2)
        except NotFoundError:
            return None
        return codec.decode(LEASES, answer)

    def _write(self, lease: Lease | None, action: Action) -> Flow[None]:
        sent = self._clock.now
        wanted = self._renewed(lease, action, self._notes(action))
        kept = codec.decode(LEASES, (yield self._request(wanted, new=lease is None)))
        self._lease, self._leads_until = kept, sent + self._config.deadline
        self._observed = ObservedLease(kept.metadata.resource_version, sent)
        self._on_written(kept, lease, action)

    def _request(self, lease: Lease, *, new: bool) -> RenewLease:
        where, within = self._config.namespace, self._config.deadline / 2
        method, name = ("POST", "") if new else ("PUT", self._config.name)
        return RenewLease(method, LEASES.path(where, name), codec.to_document(LEASES, lease), within=within)

    def _renewed(self, lease: Lease | None, action: Action, notes: Mapping[str, str]) -> Lease:
        now = format_micro(self._clock.wall)
        before = lease or Lease(metadata=Metadata(name=self._config.name, namespace=self._config.namespace))
        new = action != "renew"
        epoch = max(before.spec.lease_transitions, self._lowest_epoch() if new else 0)
        spec = LeaseSpec(
            holder_identity=self._me,
            lease_duration_seconds=round(self._config.duration),
            acquire_time=now if new else before.spec.acquire_time,
            renew_time=now,
            lease_transitions=epoch + 1 if new else epoch,
        )
        annotations = {**before.metadata.annotations, **self.annotations, **notes}
        return replace(before, spec=spec, metadata=replace(before.metadata, annotations=annotations))
