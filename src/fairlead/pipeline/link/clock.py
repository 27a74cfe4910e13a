"""The difference between the clocks of two hosts, from messages that both stamp. Pure."""

from collections import deque
from typing import Final

_SAMPLES: Final = 16


class ClockOffset:
    """The other clock minus this one, from the exchange with the shortest round trip among the last ones."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque(maxlen=_SAMPLES)

    def add(self, sent: float, arrived: float, answered: float, now: float) -> None:
        """Take one exchange: sent here, arrived and answered there, back here now. Nonsense is left out."""
        round_trip = (now - sent) - (answered - arrived)
        if round_trip >= 0 and answered >= arrived:
            self._samples.append((round_trip, ((arrived - sent) + (answered - now)) / 2))

    @property
    def seconds(self) -> float:
        """The difference; 0 before the first exchange."""
        return min(self._samples)[1] if self._samples else 0.0

    @property
    def round_trip(self) -> float | None:
        """The shortest round trip among the last ones; None before the first exchange."""
        return min(self._samples)[0] if self._samples else None
