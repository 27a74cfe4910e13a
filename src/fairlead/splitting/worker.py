"""SplitWorker: what the coordinator knows of one worker while a job runs."""

from collections import OrderedDict

from fairlead.splitting.items import BytesAt, SplitLease
from fairlead.splitting.rate import RateMeter
from fairlead.splitting.rules import SplitRules


class SplitWorker:
    """A worker: its rate, what it holds, and since when it has been at its first input."""

    def __init__(self, name: str, rules: SplitRules, now: float) -> None:
        self.name = name
        self.site = "device"
        self.slots = 1
        self.has = BytesAt.ALL
        self.seen = now
        self.meter = RateMeter(rules)
        self.held: OrderedDict[int, SplitLease] = OrderedDict()
        self.since = now
        """When it completed an input last, or got one while it had none."""
        self.contact = rules.rarely
        """Seconds in which it makes contact again."""
        self.done = 0
        self.failed = 0
        self.copies = 0
        self.seconds = 0.0
        """Of execution, by its own clock."""
        self.dropped: set[int] = set()
        """Inputs that it holds and need not end."""
        self._rules = rules

    @property
    def rate(self) -> float | None:
        """Completions a second; None: unmeasured."""
        return self.meter.rate

    def is_alive(self, now: float) -> bool:
        """Return whether it was heard not long ago, and does what is expected."""
        silence = now - self.seen
        if silence > max(self._rules.silence, 3 * self.contact):
            return False
        return not self.held or not self.is_overdue(1, now)

    def speed(self, now: float) -> float:
        """Return the rate to plan with: a completion that is late makes it slower; 0: unmeasured."""
        rate = self.rate
        if rate is None:
            return 0.0
        late = now - self.since - self.contact
        return rate if not self.held or late * rate <= self.slots else self.slots / late

    def remaining(self, now: float) -> float:
        """Return how many of the held inputs are still to be done, as far as the rate says."""
        begun = (self.rate or 0.0) * max(0.0, now - self.since)
        return max(min(1.0, float(len(self.held))), len(self.held) - begun)

    def ends(self, more: int, now: float) -> float:
        """Return the seconds until it would end all that it holds and some more; infinite: unmeasured."""
        speed = self.speed(now)
        return (self.remaining(now) + more) / speed if speed else float("inf")

    def ends_of(self, position: int, now: float) -> float:
        """Return the seconds until it ends the held input at a position from 1."""
        speed = self.speed(now)
        if not speed:
            return float("inf")
        return max(0.0, self.since + position / speed - now)

    def is_overdue(self, position: int, now: float) -> bool:
        """Return whether the held input at a position should have ended some time ago."""
        rate = self.rate
        if rate is None:
            return False
        # Inputs in several slots end together.
        expected = max(position, self.slots) / rate
        return now - self.since > self._rules.overdue * expected + self.contact

    def renew(self, until: float) -> None:
        """Renew the leases of all that it holds."""
        for number, lease in self.held.items():
            self.held[number] = SplitLease(lease.input, lease.worker, lease.number, until, lease.copy)
