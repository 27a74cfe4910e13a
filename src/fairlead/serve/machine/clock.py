"""The time, as a state machine is told it with every event."""

from dataclasses import dataclass
from datetime import datetime

from fairlead.compat.times import UTC


@dataclass(slots=True)
class MachineClock:
    """Both clocks as of the event that is handled."""

    now: float = 0.0
    """Seconds by a clock that no person sets; everything but texts goes by it."""
    _wall: float = 0.0
    _read_at: float = 0.0

    def set_wall(self, seconds: float) -> None:
        """Note the time of day, in seconds since 1970; it may jump."""
        self._wall, self._read_at = seconds, self.now

    @property
    def wall(self) -> datetime:
        """The time of day, for what people read."""
        return datetime.fromtimestamp(self._wall + self.now - self._read_at, UTC)
