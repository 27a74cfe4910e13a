"""How long a call of a stage takes, by the frames in its batch: measured, interpolated, and followed.

Times are kept for 1, 2, 4 frames and so on up to the largest batch, with lines between them: an accelerator
is often flat for small batches and linear for large ones, which no single line describes. Pure.
"""

from bisect import bisect_left
from statistics import median
from typing import Final

SURE: Final = 5
"""Calls of which the median is the time of a size at first: the first two with a new size may compile kernels
or reserve memory."""
DRIFT: Final = 1.25
"""A size whose time has changed by this factor says that the others are out of date as well."""
_GAIN: Final = 0.1
"""The weight of one more call: a change is followed within some ten calls."""
_OUTLIER: Final = 2.0
"""A call moves the time of its size as if it had taken at most twice as long as expected, or half as long."""


class CallCost:
    """The seconds of a call with 1 to `most` frames; sizes are measured one after another."""

    def __init__(self, most: int) -> None:
        self._sizes = [*(1 << bit for bit in range(most.bit_length()) if 1 << bit < most), most]
        self._seconds: list[float] = []
        """Of the first sizes, those that are measured."""
        self._first_seconds: list[float] = []
        """What these were at first."""
        self._next: list[float] = []
        """Of the next size, the calls so far."""
        self._calls = 0.0
        """How many these are; one with fewer frames counts as a part of one."""

    @property
    def limit(self) -> int:
        """The largest batch that tells something new: of the next size, or of the largest."""
        return self._sizes[min(len(self._seconds), len(self._sizes) - 1)]

    @property
    def has_drifted(self) -> bool:
        """Whether the time of a size is far from what it was at first."""
        pairs = zip(self._seconds, self._first_seconds, strict=True)
        return any(not first / DRIFT < now < first * DRIFT for now, first in pairs)

    def observe(self, frames: int, seconds: float) -> None:
        """Take the time of one call; a batch larger than `limit` says nothing about the sizes between."""
        if not 1 <= frames <= self.limit or not seconds > 0:
            return
        above = bisect_left(self._sizes, frames)
        share = 1.0
        if self._sizes[above] != frames:
            below = self._sizes[above - 1]
            share = (frames - below) / (self._sizes[above] - below)
        if above == len(self._seconds):
            self._measure_next(share, seconds)
            return
        if share < 1.0:
            expected = (1 - share) * self._seconds[above - 1] + share * self._seconds[above]
            self._move(above - 1, 1 - share, seconds / expected)
        else:
            expected = self._seconds[above]
        self._move(above, share, seconds / expected)

    def curve(self) -> list[float]:
        """Return the seconds of 1 to `most` frames; empty before the first size is measured.

        Beyond the measured sizes the last line goes on. One size alone counts as flat: the next is tried.
        """
        times = self._seconds[:1]
        slope = 0.0
        for index in range(1, len(self._seconds)):
            width = self._sizes[index] - self._sizes[index - 1]
            slope = (self._seconds[index] - self._seconds[index - 1]) / width
            times += [self._seconds[index - 1] + slope * step for step in range(1, width + 1)]
        if times:
            last, missing = times[-1], self._sizes[-1] - len(times)
            times += [last + max(0.0, slope) * step for step in range(1, missing + 1)]
        return times

    def _measure_next(self, share: float, seconds: float) -> None:
        """Count a call towards the next size; one with fewer frames is continued to it on a line."""
        if share < 1.0:
            below = self._seconds[-1]
            seconds = below + max(0.0, seconds - below) / share
        self._next.append(seconds)
        self._calls += share
        if self._calls >= SURE:
            self._seconds.append(median(self._next))
            self._first_seconds.append(self._seconds[-1])
            self._next, self._calls = [], 0.0

    def _move(self, index: int, share: float, ratio: float) -> None:
        ratio = min(_OUTLIER, max(1 / _OUTLIER, ratio))
        self._seconds[index] *= 1 + _GAIN * share * (ratio - 1)
