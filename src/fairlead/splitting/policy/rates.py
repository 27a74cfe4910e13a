"""The rate of a side: what the estimator predicts, until measured completions say more."""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final

from fairlead.prediction import Z90, Estimate

_NOISE: Final = 0.5
"""The deviation of the logarithm of one input's time: a rate from few completions says little."""
_FIRM: Final = 0.1
"""A rate with a smaller deviation counts as measured."""


class RateBasis(Enum):
    """Where a rate comes from."""

    UNKNOWN = "unknown"
    PREDICTED = "predicted"
    BOTH = "predicted and measured"
    MEASURED = "measured"


@dataclass(frozen=True, slots=True)
class SideRate:
    """Inputs a second, and how sure that is."""

    per_s: float | None
    spread: float = 0.0
    """The standard deviation of its logarithm."""
    basis: RateBasis = RateBasis.MEASURED


def unknown_rate() -> SideRate:
    """Return the rate of a side of which nothing is known."""
    return SideRate(None, basis=RateBasis.UNKNOWN)


def predicted_rate(estimate: Estimate, workers: int = 1) -> SideRate:
    """Return the rate that an estimate predicts for an input of one batch on each of some workers."""
    if not estimate.runs or not estimate.fits or not estimate.seconds or workers < 1:
        return unknown_rate()
    spread = math.log(estimate.p90 / estimate.seconds) / Z90 if estimate.p90 else _NOISE
    return SideRate(workers * estimate.batch / estimate.seconds, max(0.0, spread), RateBasis.PREDICTED)


def measured_rate(prior: SideRate, per_s: float | None, completions: int) -> SideRate:
    """Return a rate after some completions: what was predicted weighs as much as its spread allows."""
    if per_s is None or per_s <= 0 or completions < 1:
        return prior
    weight = completions / _NOISE**2
    if prior.per_s is None or prior.per_s <= 0:
        return SideRate(per_s, math.sqrt(1 / weight), RateBasis.MEASURED)
    before = 1 / max(prior.spread, 1e-3) ** 2
    logarithm = (before * math.log(prior.per_s) + weight * math.log(per_s)) / (before + weight)
    spread = math.sqrt(1 / (before + weight))
    if completions > 1 and spread < _FIRM and before < weight:
        return SideRate(per_s, spread, RateBasis.MEASURED)
    return SideRate(math.exp(logarithm), spread, RateBasis.BOTH)
