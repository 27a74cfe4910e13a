"""Figures of merit. Errors are in percent of the measured value; None where a figure is not defined."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlead.estimate.similar.traits import Array

_DIGITS = 6
"""Predictions whose logarithms agree to this number of decimals are a tie."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The accuracy of predictions."""

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


def judge(predicted: Array, measured: Array) -> Accuracy:
    """Compare logarithms of predictions with those of measurements."""
    sound = np.isfinite(predicted) & np.isfinite(measured)
    if not sound.any():
        return Accuracy()
    guess, truth = predicted[sound], measured[sound]
    error = 100 * np.abs(np.expm1(np.clip(guess - truth, -50, 50)))
    return Accuracy(
        mape=float(error.mean()),
        median_ape=float(np.median(error)),
        within_10=float(100 * (error <= 10).mean()),
        spearman=spearman(guess, truth),
        kendall=kendall(guess, truth),
    )


def average(accuracies: Iterable[Accuracy]) -> Accuracy:
    """Return the mean of each figure over those that have it."""
    rows = [asdict(figures) for figures in accuracies]
    means = {}
    for field in fields(Accuracy):
        known = [row[field.name] for row in rows if row[field.name] is not None]
        means[field.name] = float(np.mean(known)) if known else None
    return Accuracy(**means)


def spearman(one: Array, two: Array) -> float | None:
    """Return the correlation of ranks."""
    if len(one) < 3:
        return None
    first, second = ranks(one), ranks(two)
    if first.std() == 0 or second.std() == 0:
        return None
    return float(np.corrcoef(first, second)[0, 1])


def kendall(one: Array, two: Array) -> float | None:
    """Return Kendall's tau-b: concordant pairs less discordant ones, corrected for ties."""
    first, second = _dense(one), _dense(two)
    pairs = len(first) * (len(first) - 1) / 2
    tied_first, tied_second = _ties(first), _ties(second)
    if len(first) < 3 or pairs in (tied_first, tied_second):
        return None
    both = _ties(_dense(first * (second.max() + 1.0) + second))
    swapped = _inversions(second[np.lexsort((second, first))])
    same = pairs - tied_first - tied_second + both - swapped
    return float((same - swapped) / np.sqrt((pairs - tied_first) * (pairs - tied_second)))


def _dense(values: Array) -> NDArray[np.int64]:
    return np.unique(np.round(values, _DIGITS), return_inverse=True)[1].astype(np.int64)


def _ties(ranked: NDArray[np.int64]) -> float:
    count = np.bincount(ranked).astype(np.float64)
    return float((count * (count - 1) / 2).sum())


def _inversions(ranked: NDArray[np.int64]) -> float:
    """Count pairs in falling order: each pair is counted at the highest bit in which its values differ."""
    total = 0.0
    for bit in range(int(ranked.max(initial=0)).bit_length()):
        prefix = ranked >> (bit + 1)
        order = np.argsort(prefix, kind="stable")
        high = (ranked[order] >> bit) & 1
        before = np.cumsum(high) - high
        starts = np.flatnonzero(np.diff(prefix[order], prepend=-1))
        lengths = np.diff(np.append(starts, len(order)))
        total += float(((before - np.repeat(before[starts], lengths)) * (1 - high)).sum())
    return total


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
