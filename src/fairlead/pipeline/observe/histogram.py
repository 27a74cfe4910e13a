"""Durations in fixed buckets: cheap to count for every frame, and to add up over processes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

_STEPS: Final = (1.0, 2.5, 5.0)
BOUNDS: Final = (*(step * 10.0**power for power in range(-5, 1) for step in _STEPS), 10.0)
"""Seconds: the upper bounds of the buckets, from 10 microseconds on; one more bucket has no bound."""


class DurationHistogram:
    """How often something took how long.

    A frame adds its duration to a list; a report sorts the list into buckets, much faster than one by one.
    """

    __slots__ = ("_counts", "_total", "_values", "observe")

    def __init__(self) -> None:
        self._counts = np.zeros(len(BOUNDS) + 1, np.int64)
        self._total = 0.0
        self._values: list[float] = []
        self.observe: Callable[[float], None] = self._values.append
        """Count one duration, in seconds."""

    def to_json(self) -> dict[str, Any]:
        """Return the counts as a report carries them."""
        if self._values:
            places = np.searchsorted(BOUNDS, self._values)
            self._counts += np.bincount(places, minlength=len(BOUNDS) + 1)
            self._total += sum(self._values)
            self._values.clear()
        return {"sum": self._total, "buckets": self._counts.tolist()}


def empty_times(*names: str) -> dict[str, Any]:
    """Return histograms without a duration, as reports add to them."""
    return {name: DurationHistogram().to_json() for name in names}


def quantile(buckets: Sequence[int], share: float) -> float | None:
    """Return the duration below which a share of all lies, interpolated in its bucket; None: there is none.

    What lies above the last bound counts as the last bound.
    """
    wanted, below = share * sum(buckets), 0
    for index, count in enumerate(buckets):
        if count and below + count >= wanted:
            low = BOUNDS[index - 1] if index else 0.0
            high = BOUNDS[min(index, len(BOUNDS) - 1)]
            return low + (high - low) * (wanted - below) / count
        below += count
    return None


def without_buckets(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a status for people and scripts: quantiles instead of the counts of every bucket."""
    short = {key: value for key, value in document.items() if key != "bounds"}
    for part in ("stages", "edges"):
        short[part] = [
            each | {"times": {name: _without(times) for name, times in each["times"].items()}}
            for each in document[part]
        ]
    return short


def _without(times: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in times.items() if key != "buckets"}


def describe(times: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return histograms with their number, median and 99th percentile."""
    return {
        name: {
            "count": sum(each["buckets"]),
            "sum": each["sum"],
            "p50": quantile(each["buckets"], 0.5),
            "p99": quantile(each["buckets"], 0.99),
            "buckets": each["buckets"],
        }
        for name, each in times.items()
    }
