"""Who decides: one of several replicas, by a Lease that must be renewed.

A replica leads from the moment its write of the Lease is answered until `deadline` after that write was sent,
by a clock that also counts while the machine sleeps and that nobody sets. So whoever cannot renew stops by
itself before another may begin. Another begins when it has seen no change of the Lease for its whole
duration, by its own clock: the times written in it are for people. So it does where the Lease is gone, or
its holder was taken out by somebody else: the last leader may not know yet.

The Lease also carries the leader's roster (see `roster.py`): so nobody can add to it who does not lead, and
whoever takes the Lease has read the last one.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from msgspec.structs import replace

from fairlead.cluster.api import Cluster
from fairlead.cluster.kinds import LEASES
from fairlead.cluster.meta import Metadata
from fairlead.cluster.objects import Lease, LeaseSpec
from fairlead.cluster.times import format_micro
from fairlead.compat.times import UTC
from fairlead.errors import ClusterError, ConflictError, NotFoundError
from fairlead.serve.scheduler import roster
from fairlead.serve.scheduler.roster import EVERYBODY, NOBODY, Roster

NAME: Final = "fairlead-scheduler"
Move = Literal["make", "take", "renew", "wait"]


def awake() -> float:
    """Return seconds by a clock that counts while the machine sleeps and that nobody sets."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def today() -> datetime:
    """Return the time that people go by; it may jump, and nothing but texts depends on it."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Terms:
    """How a lease is held."""

    namespace: str = "kube-system"
    name: str = NAME
    duration: float = 15.0
    """Seconds without a renewal after which another may take it."""
    deadline: float = 10.0
    """Seconds after which a leader that cannot renew stops; less than `duration`, for clocks differ."""
    period: float = 2.0
    """Seconds between looks."""


@dataclass(frozen=True, slots=True)
class Sight:
    """The lease as last seen, and since when it has been so."""

    version: str | None = None
    """Empty: there was none; None: nobody has looked yet."""
    since: float = float("-inf")

    def again(self, version: str, now: float) -> "Sight":
        """Return what is known after another look."""
        return self if version == self.version else Sight(version, now)


@dataclass(frozen=True, slots=True)
class Reign:
    """A time of leading."""

    turn: int
    clean: bool
    """The leader before said that it had finished; else it may have been stopped in the middle."""
    left: Roster = EVERYBODY
    """For whom the leader before may have left something half done."""


def move(lease: Lease | None, me: str, sight: Sight, now: float, duration: float) -> Move:
    """Return what to do about a lease."""
    stale = now - sight.since >= duration
    if lease is None:
        return "make" if stale else "wait"
    mine = lease.spec.holder_identity == me  # and yet we do not lead: we came too late, so it is a new turn
    return "take" if mine or stale or handed_over(lease) else "wait"


def handed_over(lease: Lease | None) -> bool:
    """Say whether the leader before has finished; a holder alone may have been taken out by anybody."""
    return lease is not None and not lease.spec.holder_identity and _left(lease) == NOBODY


def _left(lease: Lease) -> Roster:
    return roster.parse(lease.metadata.annotations.get(roster.ANNOTATION, ""))


class Leader:
    """One replica's hold of the lease."""

    def __init__(
        self,
        cluster: Cluster,
        me: str,
        terms: Terms,
        floor: Callable[[], int] = lambda: 0,
        clock: Callable[[], float] = awake,
        wall: Callable[[], datetime] = today,
        began: Callable[[], bool] = lambda: False,
    ) -> None:
        self._floor = floor
        """The highest turn that anything bears: where somebody deleted the lease, it would begin anew."""
        self._began = began
        """Whether one of us has ever placed anything: then there was a lease, and may be a leader."""
        self._cluster = cluster
        self._me = me
        self._terms = terms
        self._clock = clock
        self._wall = wall
        self._sight = Sight()
        self._lease: Lease | None = None
        self._until = float("-inf")
        self._reign: Reign | None = None
        self._wanted: Callable[[], Roster] | None = None
        """Makes the roster of this reign; None: what the leader before left is not ended yet, and stays."""
        self._possible: tuple[Roster, ...] = ()
        """What may stand in the lease: the last that was answered, and those sent since."""
        self._pen = asyncio.Lock()
        self._over = False
        self.signs: Mapping[str, str] = {}
        """What else the lease says of us while it is ours: annotations."""
        self.trouble = ""
        """Why the lease could not be looked at or written the last time."""

    @property
    def reign(self) -> Reign | None:
        """The time of leading that is now; None while another leads, or nobody knows."""
        return self._reign if self._clock() < self._until else None

    def leads(self, turn: int) -> bool:
        """Say whether this is still the reign of that turn."""
        reign = self.reign
        return reign is not None and reign.turn == turn

    def covers(self, items: Iterable[Metadata]) -> bool:
        """Say whether all of these are on the roster, whichever of our last writes came through."""
        return bool(self._possible) and all(one.covers(item) for item in items for one in self._possible)

    async def enrol(self, turn: int, wanted: Callable[[], Roster]) -> None:
        """Write the roster that `wanted` makes, now and with every renewal; what goes wrong is raised."""
        async with self._pen:
            if self.leads(turn):
                self._wanted = wanted
            await self._write_roster(turn)

    async def extend(self, turn: int, items: Sequence[Metadata]) -> None:
        """See to it that these are on the roster; those who want it at the same time share one write."""
        async with self._pen:
            if not (self.leads(turn) and self.covers(items)):
                await self._write_roster(turn)

    async def _write_roster(self, turn: int) -> None:
        if not self.leads(turn) or self._lease is None or self._wanted is None:
            raise ConflictError("another leads by now")
        try:
            await self._write(self._lease, "renew")
        except (ConflictError, NotFoundError):
            self._until = float("-inf")  # it is not as we left it
            raise

    async def follow(self) -> None:
        """Seek, hold and renew the lease until cancelled."""
        while True:
            try:
                async with asyncio.timeout(self._terms.deadline / 2):
                    await self.look()
                self.trouble = ""
            except (ClusterError, TimeoutError) as error:
                self.trouble = str(error) or "the API server did not answer in time"
            await asyncio.sleep(self._terms.period)

    async def look(self) -> None:
        """Look at the lease once, and do what is to be done about it."""
        async with self._pen:
            if not self._over:
                await self._look()

    async def _look(self) -> None:
        reign = self.reign
        # A mark above our turn says that another led, whatever the lease says: then it takes a new turn.
        if reign is not None and self._lease is not None and self._floor() <= reign.turn:
            try:
                await self._write(self._lease, "renew")  # without a look: it must not be late
            except (ConflictError, NotFoundError):
                self._until = float("-inf")  # it is not as we left it
            else:
                return
        try:
            lease = await self._cluster.get(LEASES, self._terms.name, self._terms.namespace)
        except NotFoundError:
            lease = None
        now = self._clock()
        first = lease is None and self._sight.version is None and not self._began()
        version = lease.metadata.resource_version if lease else ""
        self._sight = self._sight.again(version, float("-inf") if first else now)
        what = move(lease, self._me, self._sight, now, self._terms.duration)
        if what != "wait":
            await self._write(lease, what)

    async def resign(self, finished: int | None = None) -> None:
        """Stop leading; where this is the turn whose work is `finished`, the next one may begin at once."""
        self._over = True
        async with self._pen:
            await self._resign(finished)

    async def _resign(self, finished: int | None) -> None:
        lease, held = self._lease, finished is not None and self.leads(finished)
        self._until, self._reign = float("-inf"), None
        if held and lease is not None:
            notes = {**lease.metadata.annotations, roster.ANNOTATION: NOBODY.text()}
            spec = replace(lease.spec, holder_identity="")
            free = replace(lease, spec=spec, metadata=replace(lease.metadata, annotations=notes))
            await self._cluster.update(LEASES, free, self._terms.namespace)

    async def _write(self, lease: Lease | None, what: Move) -> None:
        sent = self._clock()
        listed = self._wanted() if self._wanted is not None and what == "renew" else None
        wanted = self._renewed(lease, what, listed)
        if listed is not None:
            self._possible = (*self._possible, listed)
        if lease is None:
            kept = await self._cluster.create(LEASES, wanted, self._terms.namespace)
        else:
            kept = await self._cluster.update(LEASES, wanted, self._terms.namespace)
        self._lease, self._until = kept, sent + self._terms.deadline
        self._sight = Sight(kept.metadata.resource_version, sent)
        self._possible = (listed,) if listed is not None else ()
        if what != "renew":
            self._wanted = None
            self._reign = Reign(kept.spec.lease_transitions, handed_over(lease), _left(kept))

    def _renewed(self, lease: Lease | None, what: Move, listed: Roster | None) -> Lease:
        now = format_micro(self._wall())
        before = lease or Lease(metadata=Metadata(name=self._terms.name, namespace=self._terms.namespace))
        new = what != "renew"
        turn = max(before.spec.lease_transitions, self._floor() if new else 0)
        spec = LeaseSpec(
            holder_identity=self._me,
            lease_duration_seconds=round(self._terms.duration),
            acquire_time=now if new else before.spec.acquire_time,
            renew_time=now,
            lease_transitions=turn + 1 if new else turn,
        )
        notes = {**before.metadata.annotations, **self.signs}
        if listed is not None:
            notes[roster.ANNOTATION] = listed.text()
        return replace(before, spec=spec, metadata=replace(before.metadata, annotations=notes))
