"""Bounded records of a run: its samples over time, and the time that it spent at each level."""

from math import ceil, log
from typing import Final

from fairlead.series import Series

MOST_SAMPLES: Final = 256
"""Samples of a trace; two neighbours become one with the higher value where there are more."""
_STEP: Final = 1.05
"""The ratio between two levels."""


class PeakTrace:
    """Samples of one amount in time: bounded, and no peak is lost."""

    def __init__(self, most: int = MOST_SAMPLES) -> None:
        self._most = most
        self._times: list[float] = []
        self._values: list[float] = []
        self.peak = 0.0

    def add(self, time: float, value: float) -> None:
        """Add a sample."""
        self._times.append(time)
        self._values.append(value)
        self.peak = max(self.peak, value)
        if len(self._times) >= self._most:
            pairs = range(1, len(self._times), 2)
            self._values = [max(self._values[i - 1], self._values[i]) for i in pairs]
            self._times = [self._times[i] for i in pairs]

    def series(self) -> Series:
        """Return the samples."""
        return Series(tuple(self._times), tuple(self._values), "runner")


class TimeAtLevels:
    """The seconds that an amount spent at each of its levels."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}

    def add(self, value: float, seconds: float) -> None:
        """Count some seconds at a value."""
        level = ceil(log(value, _STEP)) if value >= 1 else -1
        self._seconds[level] = self._seconds.get(level, 0.0) + seconds

    def quantile(self, part: float) -> float:
        """Return the level that the amount stayed at or below for a part of the time."""
        left = part * sum(self._seconds.values())
        for level in sorted(self._seconds):
            left -= self._seconds[level]
            if left <= 1e-9:
                return float(_STEP**level) if level >= 0 else 0.0
        return 0.0
