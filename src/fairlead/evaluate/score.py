"""Figures of merit. Errors are in percent of the measured value; None where there is nothing to say."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from fairlead.estimate.traits import Array

_CHUNK = 1024
_DIGITS = 6
"""Predictions that agree in so many decimals of their logarithm are a tie."""


@dataclass(frozen=True, slots=True)
class Figures:
    """How well predictions did."""

    mape: float | None = None
    median_ape: float | None = None
    within_10: float | None = None
    spearman: float | None = None
    kendall: float | None = None
    top1: float | None = None
    mean_regret: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {name: None if value is None else round(value, 4) for name, value in asdict(self).items()}


def judge(predicted: Array, measured: Array) -> Figures:
    """Compare logarithms of predictions with those of measurements."""
    sound = np.isfinite(predicted) & np.isfinite(measured)
    if not sound.any():
        return Figures()
    guess, truth = predicted[sound], measured[sound]
    error = 100 * np.abs(np.expm1(np.clip(guess - truth, -50, 50)))
    return Figures(
        mape=float(error.mean()),
        median_ape=float(np.median(error)),
        within_10=float(100 * (error <= 10).mean()),
        spearman=spearman(guess, truth),
        kendall=kendall(guess, truth),
    )


def average(found: Iterable[Figures]) -> Figures:
    """Return the mean of each figure over those that have it."""
    rows = [asdict(figures) for figures in found]
    means = {}
    for field in fields(Figures):
        known = [row[field.name] for row in rows if row[field.name] is not None]
        means[field.name] = float(np.mean(known)) if known else None
    return Figures(**means)


def spearman(one: Array, two: Array) -> float | None:
    """Return the correlation of ranks."""
    if len(one) < 3:
        return None
    first, second = ranks(one), ranks(two)
    if first.std() == 0 or second.std() == 0:
        return None
    return float(np.corrcoef(first, second)[0, 1])


def kendall(one: Array, two: Array) -> float | None:
    """Return Kendall's tau-b: pairs in the same order less pairs in the other, ties taken into account."""
    first, second = np.round(one, _DIGITS), np.round(two, _DIGITS)
    agree = ties_one = ties_two = 0.0
    for start in range(0, len(first), _CHUNK):
        left = np.sign(first[start : start + _CHUNK, None] - first[None])
        right = np.sign(second[start : start + _CHUNK, None] - second[None])
        agree += float((left * right).sum())
        ties_one += float((left != 0).sum())
        ties_two += float((right != 0).sum())
    if len(first) < 3 or not ties_one or not ties_two:
        return None
    return agree / float(np.sqrt(ties_one * ties_two))


def ranks(values: Array) -> Array:
    """Return ranks; equal values share the mean of theirs."""
    rounded = np.round(values, _DIGITS)
    _, place, count = np.unique(rounded, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    means: Array = last - (count - 1) / 2
    return means[place]


def choose(predicted: Sequence[float] | Array, measured: Sequence[float] | Array) -> tuple[bool, float]:
    """Say whether the device that is predicted to be fastest is, and how much longer it takes, in percent."""
    guess, truth = np.asarray(predicted), np.asarray(measured)
    regret = float(100 * np.expm1(truth[np.argmin(guess)] - truth.min()))
    return regret <= 1e-9, regret
