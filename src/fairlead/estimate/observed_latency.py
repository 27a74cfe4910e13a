"""Correct a prediction by latencies observed in real use, of this model on this device."""

from math import exp, log
from typing import Final

from fairlead.calibration import Latency

_PREDICTION_WEIGHT: Final = 2.0
"""The prediction counts as much as this number of latencies."""
ENOUGH_LATENCIES: Final = 10
"""From this number of latencies on, their own ninth decile is known as well."""


def correct(mean: float, p90: float, observed: Latency) -> tuple[float, float]:
    """Return mean and p90 drawn toward the observed latencies; more latencies count more."""
    share = observed.count / (observed.count + _PREDICTION_WEIGHT)
    ratio = exp(share * log(observed.median / mean))
    high = p90 * ratio
    if observed.count >= ENOUGH_LATENCIES:
        high = exp((1 - share) * log(high) + share * log(observed.p90))
    return mean * ratio, max(mean * ratio, high)
