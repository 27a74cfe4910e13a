"""The probability that a pod exceeds a size: order statistics at the peak, an exponential tail above it.

Of exchangeable periods of equal length the last one holds the largest value with the probability 1 / number.
So a pod exceeds the peak of `observed` seconds during the next day with the probability
day / (observed + day), whatever the distribution is: 1 in 2 after one day, 1 in 8 after a week or after one
day of seven pods. Samples within a day count for nothing more, because they depend on each other.

Above the peak the probability falls by a factor of e for each `scale`. The scale is the distance of the peak
from the median of the peaks of blocks, and at least a tenth of the peak: a workload that was constant for a
day can still load a second model. docs/reference/rightsize.md has stated risks beside observed ones.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median
from typing import Final

from fairlead.series import Series

DAY: Final = 86400.0
"""Seconds: the period that a risk is stated for."""
BLOCKS: Final = 8
"""The parts of a series that give one peak each."""
LEAST_SCALE: Final = 0.1
"""The least scale, as a part of the peak."""


@dataclass(frozen=True, slots=True)
class UseTail:
    """What a workload's series say about sizes at its peak and above."""

    peak: float
    scale: float
    observed: float
    """Seconds, of all pods together."""
    peaks: tuple[float, ...]
    """The peak of each series, ascending."""
    horizon: float = DAY
    """Seconds: the period that the risks are about."""

    @classmethod
    def of(cls, series: Sequence[Series], horizon: float = DAY) -> "UseTail":
        """Return the tail of the series of a workload's pods; at least one of them has a value."""
        peaks = sorted(max(each.values) for each in series if each)
        blocks = [peak for each in series for peak in _block_peaks(each.values)]
        scale = max(LEAST_SCALE * peaks[-1], peaks[-1] - median(blocks))
        observed = sum(each.times[-1] - each.times[0] for each in series if each)
        return cls(peaks[-1], scale, observed, tuple(peaks), horizon)

    @property
    def risk_at_peak(self) -> float:
        """The probability that a pod exceeds the observed peak within the horizon."""
        return self.horizon / (self.observed + self.horizon)

    def risk(self, size: float) -> float:
        """Return the probability that a pod exceeds this size within the horizon."""
        if size >= self.peak:
            return self.risk_at_peak * exp((self.peak - size) / self.scale)
        above = sum(peak > size for peak in self.peaks)
        return max(self.risk_at_peak, (above + 1) / (len(self.peaks) + 1))

    def size(self, bound: float) -> float:
        """Return the least size, at or above the peak, with at most this risk."""
        return self.peak + self.scale * max(0.0, log(self.risk_at_peak / bound))


def _block_peaks(values: Sequence[float]) -> Iterable[float]:
    count = min(BLOCKS, len(values))
    for block in range(count):
        yield max(values[block * len(values) // count : (block + 1) * len(values) // count])
