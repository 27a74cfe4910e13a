"""Simulated figures beside the published ones: their median and band over arrival seeds."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import mean, median
from typing import Any, Final

from fairlead.reproduce.published import ALIBABA, CBP_PP, PUBLISHED, SAFE, STOCK

FIGURES: Final = (
    "mean_pending_s",
    "worst_job_s",
    "makespan_s",
    "memory_mean_mib",
    "memory_max_mib",
    "utilisation_percent",
    "power_w",
)
TOLERANCE: Final = 0.15
BAND: Final = 0.90
RESTARTS: Final = "restarts"
CLAIMS: Final = {
    "mean_pending_s": (11.0, 8.6, True),
    "worst_job_s": (3.2, 2.4, True),
    "memory_mean_mib": (2.5, 1.5, False),
    "utilisation_percent": (6.1, 2.1, False),
}
"""The factors to reach against stock and Alibaba, on average over levels; True: less is better."""
LEAST_PENDING: Final = 1.0
"""A shorter pending time counts as this many seconds, so that its factor stays finite."""


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """One figure of one scheduler at one level."""

    level: int
    scheduler: str
    figure: str
    published: float
    simulated: float
    """The median over seeds; of restarts the mean."""
    low: float
    high: float
    """The band that holds nine of ten seeds."""

    @property
    def ok(self) -> bool:
        """Whether it agrees: within 15 %, or the published run lies in the band; restarts within factor 2."""
        if self.figure == RESTARTS:
            return self.published / 2 <= self.simulated <= self.published * 2
        return abs(self.simulated / self.published - 1) <= TOLERANCE or self.in_band

    @property
    def in_band(self) -> bool:
        """Whether the published run lies among nine of ten simulated ones."""
        return self.low <= self.published <= self.high


def compared(level: int, runs: Sequence[Mapping[str, Mapping[str, Any]]]) -> Iterator[ComparedFigure]:
    """Yield every published figure of a level; `runs` holds the figures of each scheduler, for each seed."""
    for scheduler, published in PUBLISHED[level].items():
        for figure in (*FIGURES, RESTARTS):
            value = getattr(published, figure)
            if value is None:
                continue
            values = sorted(float(run[scheduler][figure]) for run in runs)
            middle = mean(values) if figure == RESTARTS else median(values)
            yield ComparedFigure(level, scheduler, figure, value, middle, *band(values))


def band(ordered: Sequence[float]) -> tuple[float, float]:
    """Return the least and the greatest of the middle nine tenths."""
    outside = int(len(ordered) * (1 - BAND) / 2 + 1e-9)
    return ordered[outside], ordered[len(ordered) - 1 - outside]


def gains(levels: Iterable[Mapping[str, Mapping[str, float]]]) -> dict[str, tuple[float, float]]:
    """Return the factors of `fairlead-safe` against stock and Alibaba: of means over all levels."""
    listed = list(levels)
    result = {}
    for figure, (_, _, less) in CLAIMS.items():
        means = {
            name: mean(float(level[name][figure]) for level in listed) for name in (STOCK, ALIBABA, SAFE)
        }
        ours = max(means[SAFE], LEAST_PENDING)
        both = [means[STOCK] / ours, means[ALIBABA] / ours]
        result[figure] = (both[0], both[1]) if less else (1 / both[0], 1 / both[1])
    return result


def worse_than_published_policy(level: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return the figures in which `fairlead-safe` is worse than CBP+PP."""
    keys = ("mean_pending_s", "worst_job_s")
    return [key for key in keys if ceil(level[SAFE][key]) > ceil(level[CBP_PP][key])]
