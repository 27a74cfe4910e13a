"""The pace of a transfer: a client must move some bytes in each period, or its connection ends."""

import time
from collections.abc import Callable

from fairlead.units import Seconds


class Pace:
    """Counts the bytes of one period after another."""

    def __init__(self, least: int, period: Seconds, clock: Callable[[], float] = time.monotonic) -> None:
        self._least, self._period, self._clock = least, period, clock
        self._since = clock()
        self._bytes = 0

    def moved(self, count: int) -> None:
        """Count bytes; TimeoutError where a period has passed with too few."""
        self._bytes += count
        now = self._clock()
        if now - self._since < self._period:
            return
        if self._bytes < self._least:
            raise TimeoutError(f"{self._bytes} bytes in {now - self._since:.0f} seconds: too slow")
        self._since, self._bytes = now, 0
