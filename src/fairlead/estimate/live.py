"""Correct a prediction by latencies that were really seen: of this model, on this device."""

from math import exp, log
from typing import Final

from fairlead.calibration import Latency

_DOUBT: Final = 2.0
"""The prediction counts as much as so many latencies."""
ENOUGH: Final = 10
"""From so many latencies on, their own ninth decile is known as well."""


def corrected(mean: float, p90: float, seen: Latency) -> tuple[float, float]:
    """Return mean and p90 drawn toward the latencies, the more so the more there are."""
    share = seen.count / (seen.count + _DOUBT)
    ratio = exp(share * log(seen.median / mean))
    high = p90 * ratio
    if seen.count >= ENOUGH:
        high = exp((1 - share) * log(high) + share * log(seen.p90))
    return mean * ratio, max(mean * ratio, high)
