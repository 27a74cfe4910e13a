"""Correct a prediction by latencies that were really seen: of this model, on this device."""

from math import exp, log
from typing import Final

from fairlead.calibration import Latency

_PREDICTION_WEIGHT: Final = 2.0
"""The prediction counts as much as so many latencies."""
ENOUGH_LATENCIES: Final = 10
"""From so many latencies on, their own ninth decile is known as well."""


def correct(mean: float, p90: float, seen: Latency) -> tuple[float, float]:
    """Return mean and p90 drawn toward the latencies, the more so the more there are."""
    share = seen.count / (seen.count + _PREDICTION_WEIGHT)
    ratio = exp(share * log(seen.median / mean))
    high = p90 * ratio
    if seen.count >= ENOUGH_LATENCIES:
        high = exp((1 - share) * log(high) + share * log(seen.p90))
    return mean * ratio, max(mean * ratio, high)
