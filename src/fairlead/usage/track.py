"""The points of one device or pod: one time, the memory in use and the busy share at that time."""

from array import array
from bisect import bisect_left
from dataclasses import dataclass
from math import isnan, nan
from typing import Final

from fairlead.series import Series
from fairlead.use import UseSample

_EMPTY: Final = Series()
POINT_SIZE: Final = 24
"""Bytes of one point: a time and two values."""


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """The measured use of a device, or of a pod on it."""

    memory: Series = _EMPTY
    """Bytes."""
    busy: Series = _EMPTY
    """The share of time with work, 0 to 1."""

    @property
    def at(self) -> float | None:
        """The time of the last value of either series."""
        times = [series.times[-1] for series in (self.memory, self.busy) if series.times]
        return max(times, default=None)


NO_USE: Final = DeviceUse()


class Track:
    """Points at ascending times; NaN stands for a value that was not measured."""

    __slots__ = ("_busy", "_gaps", "_memory", "_source", "_times", "_view")

    def __init__(self) -> None:
        self._times = array("d")
        self._memory = array("d")
        self._busy = array("d")
        self._gaps = False
        self._source = ""
        self._view: DeviceUse | None = None

    def __len__(self) -> int:
        return len(self._times)

    @property
    def last(self) -> float:
        """The time of the last point."""
        return self._times[-1] if self._times else float("-inf")

    def append(self, sample: UseSample, source: str) -> None:
        """Add a point; its time is after the last one's."""
        self._times.append(sample.at)
        self._memory.append(nan if sample.memory is None else sample.memory)
        self._busy.append(nan if sample.busy is None else sample.busy)
        self._gaps = self._gaps or sample.memory is None or sample.busy is None
        self._source = source
        self._view = None

    def trim(self, start: float, most: int) -> tuple[int, int]:
        """Drop the points before a time, then all but the newest; return how many of each."""
        old = 0 if not self._times or self._times[0] >= start else bisect_left(self._times, start)
        over = max(0, len(self._times) - old - most)
        if old + over:
            for column in (self._times, self._memory, self._busy):
                del column[: old + over]
            self._view = None
        return old, over

    def view(self) -> DeviceUse:
        """Return the points as two series; a later point does not change them."""
        if self._view is None:
            self._view = DeviceUse(self._series(self._memory), self._series(self._busy))
        return self._view

    def _series(self, column: "array[float]") -> Series:
        if not self._gaps:
            return Series(self._times[:], column[:], self._source)
        pairs = [(at, value) for at, value in zip(self._times, column, strict=True) if not isnan(value)]
        times, values = array("d", (at for at, _ in pairs)), array("d", (value for _, value in pairs))
        return Series(times, values, self._source if pairs else "")
