"""Gauges of a fleet over time: means, peaks, and a series short enough to draw."""

from dataclasses import dataclass, fields
from typing import Final

MOST_ROWS: Final = 2048
"""With more rows, adjacent rows are merged."""


@dataclass(frozen=True, slots=True)
class Gauge:
    """The gauges at one time."""

    allocated: float = 0.0
    """Allocated accelerators, shares as fractions."""
    fragmented: float = 0.0
    """Idle accelerators that the jobs of this trace cannot use."""
    capacity: float = 0.0
    """Healthy accelerators."""
    waiting: float = 0.0
    running: float = 0.0
    memory: float = 0.0
    """Bytes that jobs hold in reality."""
    busy: float = 0.0
    """Busy accelerators, as a sum of fractions."""
    watts: float = 0.0


FIELDS: Final = tuple(field.name for field in fields(Gauge))


@dataclass(slots=True)
class SeriesRow:
    """An interval and the mean of each gauge over it."""

    start: float
    end: float
    means: list[float]


class SeriesRecorder:
    """Keeps gauges as means over intervals; never more than `MOST_ROWS` of them."""

    def __init__(self) -> None:
        self.rows: list[SeriesRow] = []
        self.peaks = [0.0] * len(FIELDS)
        self._areas = [0.0] * len(FIELDS)
        self._values = [0.0] * len(FIELDS)
        self._since = 0.0
        self._grain = 0.0

    def set(self, now: float, gauge: Gauge) -> None:
        """Set the gauges from now on."""
        self.pass_to(now)
        self._values = [getattr(gauge, name) for name in FIELDS]
        self.peaks = [max(peak, value) for peak, value in zip(self.peaks, self._values, strict=True)]

    def pass_to(self, now: float) -> None:
        """Advance the time with the current gauges."""
        seconds = now - self._since
        if seconds <= 0:
            return
        for index, value in enumerate(self._values):
            self._areas[index] += value * seconds
        last = self.rows[-1] if self.rows else None
        if last is not None and now - last.start <= self._grain:
            _extend(last, now, self._values)
        else:
            self.rows.append(SeriesRow(self._since, now, list(self._values)))
        self._since = now
        if len(self.rows) > MOST_ROWS:
            self._thin()

    def mean(self, name: str) -> float:
        """Return the mean of a gauge over the whole time."""
        return self._areas[FIELDS.index(name)] / self._since if self._since else 0.0

    def total(self, name: str) -> float:
        """Return a gauge summed over time: watts become joules."""
        return self._areas[FIELDS.index(name)]

    def peak(self, name: str) -> float:
        """Return the highest value of a gauge."""
        return self.peaks[FIELDS.index(name)]

    def _thin(self) -> None:
        """Merge adjacent rows into far fewer, and use the same interval for new ones."""
        self._grain = 4.0 * self._since / MOST_ROWS
        merged: list[SeriesRow] = []
        for row in self.rows:
            if merged and row.end - merged[-1].start <= self._grain:
                _extend(merged[-1], row.end, row.means)
            else:
                merged.append(row)
        self.rows = merged


def _extend(row: SeriesRow, end: float, values: list[float]) -> None:
    before, more = row.end - row.start, end - row.end
    row.means = [
        (old * before + new * more) / (before + more) for old, new in zip(row.means, values, strict=True)
    ]
    row.end = end
