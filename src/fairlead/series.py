"""Series: measured values in time, with their source and whether they are still current."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fairlead.compat import StrEnum

NO_VALUES: Final[tuple[float, ...]] = ()


class Staleness(StrEnum):
    """Whether a series can be used now: an old value is not a zero."""

    FRESH = "fresh"
    STALE = "stale"
    """The last value is older than the limit."""
    MISSING = "missing"
    """There is no value at all."""


@dataclass(frozen=True, slots=True)
class Series:
    """Values at ascending times, in seconds since the epoch; a missing sample is absent, never a zero."""

    times: Sequence[float] = NO_VALUES
    values: Sequence[float] = NO_VALUES
    source: str = ""
    """Where the values come from: `prometheus`, `agents`, `simulation`, `csv`."""

    def __len__(self) -> int:
        return len(self.times)

    @property
    def latest(self) -> float | None:
        """The last value."""
        return self.values[-1] if self.values else None

    def age(self, now: float) -> float | None:
        """Return the seconds since the last value; None: there is no value."""
        return now - self.times[-1] if self.times else None

    def staleness(self, now: float, limit: float) -> Staleness:
        """Return whether the last value is at most `limit` seconds old."""
        age = self.age(now)
        if age is None:
            return Staleness.MISSING
        return Staleness.FRESH if age <= limit else Staleness.STALE

    def since(self, time: float) -> "Series":
        """Return the part from a time on."""
        start = bisect_left(self.times, time)
        return Series(self.times[start:], self.values[start:], self.source)
