"""Who decides: one of several replicas, by a Lease that must be renewed.

A replica leads from the moment its write of the Lease is answered until `deadline` after that write was sent,
by a clock that also counts while the machine sleeps and that nobody sets. So whoever cannot renew stops by
itself before another may begin. Another begins when it has seen no change of the Lease for its whole
duration, by its own clock: the times written in it are for people.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from msgspec.structs import replace

from fairlead.cluster.api import Cluster
from fairlead.cluster.kinds import LEASES
from fairlead.cluster.meta import Metadata
from fairlead.cluster.objects import Lease, LeaseSpec
from fairlead.cluster.times import format_micro
from fairlead.errors import ClusterError, ConflictError, NotFoundError

NAME: Final = "fairlead-scheduler"
Move = Literal["make", "take", "renew", "wait"]


def awake() -> float:
    """Return seconds by a clock that counts while the machine sleeps and that nobody sets."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


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

    version: str = ""
    since: float = 0.0

    def again(self, version: str, now: float) -> "Sight":
        """Return what is known after another look."""
        return self if version == self.version else Sight(version, now)


@dataclass(frozen=True, slots=True)
class Reign:
    """A time of leading."""

    turn: int
    clean: bool
    """The leader before said that it had finished; else it may have been stopped in the middle."""


def move(lease: Lease | None, me: str, sight: Sight, now: float, duration: float) -> Move:
    """Return what to do about a lease."""
    if lease is None:
        return "make"
    if lease.spec.holder_identity in ("", me):
        return "take"  # our own, and yet we do not lead: we came too late, so it is a new turn
    return "take" if now - sight.since >= duration else "wait"


class Leader:
    """One replica's hold of the lease."""

    def __init__(
        self,
        cluster: Cluster,
        me: str,
        terms: Terms,
        floor: Callable[[], int] = lambda: 0,
        clock: Callable[[], float] = awake,
    ) -> None:
        self._floor = floor
        """The highest turn that anything bears: where somebody deleted the lease, it would begin anew."""
        self._cluster = cluster
        self._me = me
        self._terms = terms
        self._clock = clock
        self._sight = Sight()
        self._lease: Lease | None = None
        self._until = float("-inf")
        self._reign: Reign | None = None
        self.trouble = ""
        """Why the lease could not be looked at or written the last time."""

    @property
    def reign(self) -> Reign | None:
        """The time of leading that is now; None while another leads, or nobody knows."""
        return self._reign if self._clock() < self._until else None

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
        if self.reign is not None and self._lease is not None:
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
        self._sight = self._sight.again(lease.metadata.resource_version if lease else "", now)
        what = move(lease, self._me, self._sight, now, self._terms.duration)
        if what != "wait":
            await self._write(lease, what)

    async def resign(self, *, clean: bool) -> None:
        """Stop leading; where all that was begun is finished, let the next one begin at once."""
        lease, held = self._lease, self.reign is not None
        self._until, self._reign = float("-inf"), None
        if clean and held and lease is not None:
            free = replace(lease, spec=replace(lease.spec, holder_identity=""))
            await self._cluster.update(LEASES, free, self._terms.namespace)

    async def _write(self, lease: Lease | None, what: Move) -> None:
        sent = self._clock()
        wanted = self._wanted(lease, what)
        if lease is None:
            kept = await self._cluster.create(LEASES, wanted, self._terms.namespace)
        else:
            kept = await self._cluster.update(LEASES, wanted, self._terms.namespace)
        self._lease, self._until = kept, sent + self._terms.deadline
        self._sight = Sight(kept.metadata.resource_version, sent)
        if what != "renew":
            clean = lease is not None and not lease.spec.holder_identity
            self._reign = Reign(kept.spec.lease_transitions, clean)

    def _wanted(self, lease: Lease | None, what: Move) -> Lease:
        now = format_micro(datetime.now(UTC))
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
        return replace(before, spec=spec)
