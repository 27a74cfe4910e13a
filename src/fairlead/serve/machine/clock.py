"""The clocks of a state machine: every event carries the time."""

from dataclasses import dataclass
from datetime import datetime

from fairlead.compat.times import UTC


@dataclass(slots=True)
class MachineClock:
    """Both clocks as of the event being handled."""

    now: float = 0.0
    """Seconds of the monotonic clock; everything but texts for people uses it."""
    _wall: float = 0.0
    _read_at: float = 0.0

    def set_wall(self, seconds: float) -> None:
        """Set the time of day, in seconds since 1970; it may jump."""
        self._wall, self._read_at = seconds, self.now

    @property
    def wall(self) -> datetime:
        """The time of day, for texts that people read."""
        return datetime.fromtimestamp(self._wall + self.now - self._read_at, UTC)
