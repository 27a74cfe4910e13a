"""Predict models that no device has run: from their amounts of work, and from whatever ran on this device.

A time is a roofline of few coefficients: multiply-adds, and what an activation, a parameter and a start cost
in multiply-adds. A handful of runs does not determine them, so every combination is tried, with prior
weights, beside a roofline fitted to the runs; a Gaussian process over the models' work and names carries the
residuals over. The evidence weighs each combination, and its doubt is in the spread: that is large where
runs are few, where combinations disagree, and far from every run.

The estimate is the one with the least expected error in percent of the measured time: an estimate at half of
the time is wrong by 50 percent and one at twice the time by 100, so that it lies below the median, the more
so the larger the doubt. The p90 is that of the time itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import log
from typing import Final, NamedTuple

import numpy as np

from fairlead.estimate import nonnegative
from fairlead.estimate.similar.traits import Array, Columns, Mask, TraitColumns, TraitMatrix
from fairlead.prediction import Z90

_ACTIVATION: Final = ((100.0, 0.1), (300.0, 0.2), (1000.0, 0.3), (3000.0, 0.3), (10000.0, 0.1))
"""What an activation costs in multiply-adds, and the prior weight of it.

By all models of a device, 26 CPUs, GPUs and Jetsons of published tables lie between 200 and 3000.
"""
_PARAMETER: Final = ((0.0, 0.2), (10.0, 0.25), (30.0, 0.25), (100.0, 0.2), (300.0, 0.1))
"""The same of a parameter."""
_START: Final = ((0.0, 0.2), (0.03, 0.2), (0.1, 0.2), (0.3, 0.2), (1.0, 0.2))
"""What a run costs, as a share of the typical observed model."""
_NONE: Final = ((0.0, 1.0),)
_SMOOTH: Final = ((0.0, 0.3), (0.05, 0.3), (0.2, 0.3), (0.6, 0.1))
"""Variances of the smooth function of the models, of logarithms, and their prior weights."""
_NOISE: Final = ((0.01, 0.05), (0.03, 0.15), (0.09, 0.3), (0.25, 0.3), (0.7, 0.2))
"""The same of the noise: what neither work nor names explain."""
_LEVEL: Final = 4.0
"""The variance of the level: as good as unknown."""
_TILT: Final = 0.01
"""The variance of the power of the work, beside one."""
_SLOPE: Final = -0.15
"""Where activations are not known, larger models take less for each multiply-add."""
_WIDTHS: Final = np.array([1.5, 1.0, 1.5])
"""Of the kernel: multiply-adds, and activations and parameters for each of them, in logarithms."""
_IMPUTED: Final = (2.24, 0.868, -0.287)
"""A constant, and the powers of multiply-adds and parameters: activations of timm's networks, within 0.53."""
_UNKNOWN: Final = 1.0
"""The variance of a model whose multiply-adds are not known, where those of the models that ran are."""
_SAMPLE: Final = 48
"""This number of runs is enough to weigh the combinations."""
_MOST: Final = 400
_NEGLIGIBLE: Final = 1e-4
"""A roofline and size of less weight is left out."""
_LEAST: Final = 1e-4
"""No variance is smaller: runs of one model differ by a percent anyway."""
_ENOUGH: Final = 30
"""From this number of runs on, a roofline that is fitted to them is tried as well."""
_FITTED_WEIGHT: Final = 0.3
_MOST_BELOW: Final = 1.0
"""The estimate is at most this far below the median, in logarithms."""
_LOWEST: Final = log(0.3)
_HIGHEST: Final = log(3.0)
"""How far beyond the roofline and the most similar run an estimate may be."""
_DOUBTFUL: Final = 0.5
"""The spread of an estimate that a bound decided: its confidence is low."""
WORK: Final = ("macs", "activations", "params")
_TYPICAL: Final = (1e9, 1e7)
"""Multiply-adds and parameters where none are known."""


class Work(NamedTuple):
    """Models as multiply-adds, activations and parameters, with gaps filled."""

    amounts: Array
    """Models x (1, multiply-adds, activations, parameters)."""
    known: Array
    """1 where the multiply-adds are known."""

    @property
    def logs(self) -> Array:
        """The logarithms of multiply-adds."""
        logs: Array = np.log(self.amounts[:, 1])
        return logs

    @property
    def points(self) -> Array:
        """The models as points of a kernel."""
        ratios = np.log(self.amounts[:, 2:]) - self.logs[:, None]
        points: Array = np.column_stack([self.logs, ratios]) / _WIDTHS
        return points


class Roofline(NamedTuple):
    """One way to add up the work of a model."""

    weight: float
    coefficients: Array
    """Of a start, multiply-adds, activations and parameters: their sum is the time up to a factor."""
    logs: Array
    """At the observed models; of a roofline that is fitted to them, each without its own run."""


class ResidualVariances(NamedTuple):
    """Variances of the smooth function and of the noise."""

    weight: float
    smooth: float
    noise: float


SIZES: Final = tuple(
    ResidualVariances(one * two, smooth, noise) for (smooth, one), (noise, two) in product(_SMOOTH, _NOISE)
)


class UnseenEstimates(NamedTuple):
    """Predictions of models that no device has run."""

    logs: Array
    spreads: Array
    """How far the p90 lies above the prediction, as standard deviations."""
    bounded: Mask
    """True where a bound decided."""


@dataclass(frozen=True, slots=True)
class Combination:
    """Rooflines whose residuals have one size, fitted to the runs; the first axis of arrays is rooflines."""

    size: ResidualVariances
    weights: Array
    coefficients: Array
    levels: Array
    parts: Array
    """By run: the residual, weighed by the inverse covariance."""
    inverse: Array


@dataclass(frozen=True, slots=True)
class UnseenFit:
    """The fit of one device to its runs."""

    anchors: TraitMatrix
    """The models that ran."""
    values: Array
    """Their logarithms."""
    work: Work
    vocabulary: TraitColumns
    centre: float
    slope: float
    combinations: tuple[Combination, ...]

    def predict(self, models: TraitMatrix) -> UnseenEstimates:
        """Predict models, each within bounds of its roofline and of the most similar run."""
        work = fill(models, self.vocabulary)
        similarity = _similarity(work, models, self.work, self.anchors)
        far, near = work.logs - self.centre, self.work.logs - self.centre
        mean, square, roofline = np.zeros((3, len(far)))
        for one in self.combinations:
            covariance = _LEVEL + one.size.smooth * similarity + _TILT * np.outer(far, near)
            sums = _logs(one.coefficients, work) + one.levels[:, None]
            logs = sums + one.parts @ covariance.T
            alone = _LEVEL + one.size.smooth + _TILT * far**2
            explained = ((covariance @ one.inverse) * covariance).sum(1)
            roofline += one.weights @ sums
            mean += one.weights @ logs
            square += one.weights @ (logs**2 + np.maximum(alone - explained, 0.0) + one.size.noise)
        unknown = _UNKNOWN * self.work.known.mean() * (1 - work.known)
        doubt = np.maximum(square - mean**2, _LEAST) + unknown
        nearest = self.values[np.argmax(similarity, axis=1)]
        return _bounded(mean + self.slope * far, np.sqrt(doubt), roofline + self.slope * far, nearest)


def fit_unseen(
    columns: Columns, values: Array, models: TraitMatrix, vocabulary: TraitColumns
) -> UnseenFit | None:
    """Fit a device to its runs; None without a run, or where work is counted in other amounts."""
    if not len(columns) or not counts_work(vocabulary):
        return None
    anchors = models.take(columns[:_MOST])
    work = fill(anchors, vocabulary)
    centre = float(np.median(work.logs))
    activations = _knows_activations(anchors, vocabulary)
    slope = 0.0 if activations else _SLOPE
    similarity = _similarity(work, anchors, work, anchors)
    rooflines = _rooflines(work, values[:_MOST], activations=activations)
    residuals = values[:_MOST] - np.array([one.logs for one in rooflines]) - slope * (work.logs - centre)
    combinations = _weigh(rooflines, residuals, similarity, work.logs - centre)
    return UnseenFit(anchors, values[:_MOST], work, vocabulary, centre, slope, combinations)


def _bounded(median: Array, doubt: Array, roofline: Array, nearest: Array) -> UnseenEstimates:
    """Keep estimates near the roofline and the most similar run; beyond both bounds they are doubtful."""
    least = np.minimum(roofline, nearest) + _LOWEST
    most = np.maximum(roofline, nearest) + _HIGHEST
    high = median + Z90 * doubt
    logs = np.clip(median - np.minimum(doubt**2, _MOST_BELOW), least, most)
    bounded = (median < least) | (median > most)
    spreads = np.maximum((np.maximum(high, np.minimum(nearest, most)) - logs) / Z90, doubt)
    return UnseenEstimates(logs, np.where(bounded, np.maximum(spreads, _DOUBTFUL), spreads), bounded)


def counts_work(vocabulary: TraitColumns) -> bool:
    """Say whether amounts are those of WORK, or not known at all."""
    names = {name for view in vocabulary.amounts for name in view}
    return not names or bool(names & set(WORK))


def fill(models: TraitMatrix, vocabulary: TraitColumns) -> Work:
    """Return the work of models; what is not known is typical for what is."""
    macs, activations, params = (_column(models, vocabulary, name) for name in WORK)
    known = np.isfinite(macs)
    macs = np.where(known, macs, np.exp(np.log(macs[known]).mean()) if known.any() else _TYPICAL[0])
    macs = np.maximum(macs, 1.0)
    params = np.where(np.isfinite(params), np.maximum(params, 1.0), _TYPICAL[1])
    constant, of_macs, of_params = _IMPUTED
    usual = np.exp(constant + of_macs * np.log(macs) + of_params * np.log(params))
    activations = np.where(np.isfinite(activations), np.maximum(activations, 1.0), usual)
    return Work(np.column_stack([np.ones(len(macs)), macs, activations, params]), known.astype(np.float64))


def _weigh(
    rooflines: Sequence[Roofline], residuals: Array, similarity: Array, place: Array
) -> tuple[Combination, ...]:
    """Return the likeliest combinations of a roofline and sizes."""
    sample = slice(0, _SAMPLE)
    prior = np.log([one.weight for one in rooflines])
    evidence = np.array(
        [
            prior
            + np.log(size.weight)
            + _evidence(residuals[:, sample], _covariance(size, similarity[sample, sample], place[sample]))
            for size in SIZES
        ]
    )
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    combinations = []
    for size, shares in zip(SIZES, weights, strict=True):
        kept = np.flatnonzero(shares > _NEGLIGIBLE)
        if len(kept):
            inverse = np.asarray(np.linalg.inv(_covariance(size, similarity, place)), dtype=np.float64)
            levels = np.median(residuals[kept], axis=1)
            parts = (residuals[kept] - levels[:, None]) @ inverse
            coefficients = np.array([rooflines[index].coefficients for index in kept.tolist()])
            combinations.append(Combination(size, shares[kept], coefficients, levels, parts, inverse))
    total = sum(float(one.weights.sum()) for one in combinations)
    return tuple(replace(one, weights=one.weights / total) for one in combinations)


def _rooflines(work: Work, values: Array, *, activations: bool) -> list[Roofline]:
    """Return rooflines of all coefficients tried, and one that is fitted to the runs."""
    rooflines = []
    for (activation, one), (param, two) in product(_ACTIVATION if activations else _NONE, _PARAMETER):
        typical = float(np.exp(np.median(_logs(np.array([0.0, 1.0, activation, param]), work))))
        for start, three in _START:
            coefficients = np.array([start * typical, 1.0, activation, param])
            rooflines.append(Roofline(one * two * three, coefficients, _logs(coefficients, work)))
    if len(values) >= _ENOUGH:
        used = np.array([True, True, activations, True])
        design, times = work.amounts * used, np.exp(values)
        coefficients = np.maximum(nonnegative.fit(design, times), 0.0)
        rooflines.append(Roofline(_FITTED_WEIGHT, coefficients, nonnegative.held_out(design, times)))
    return rooflines


def _logs(coefficients: Array, work: Work) -> Array:
    """Return the logarithms of the sums, coefficients x models."""
    logs: Array = np.log(np.maximum(coefficients @ work.amounts.T, 1e-300))
    return logs


def _covariance(size: ResidualVariances, similarity: Array, place: Array) -> Array:
    smooth = _LEVEL + size.smooth * similarity + _TILT * np.outer(place, place)
    covariance: Array = smooth + size.noise * np.eye(len(place))
    return covariance


def _evidence(residuals: Array, covariance: Array) -> Array:
    """Return the logarithm of the evidence of each row of residuals, about its median."""
    centred = residuals - np.median(residuals, axis=1)[:, None]
    fit = (centred @ np.linalg.inv(covariance) * centred).sum(1)
    evidence: Array = -0.5 * (fit + np.linalg.slogdet(covariance)[1])
    return evidence


def _similarity(left: Work, models: TraitMatrix, right: Work, anchors: TraitMatrix) -> Array:
    """Return a kernel over work and words, `models` x `anchors`; 1 for a model and itself."""
    one, two = left.points, right.points
    near = np.exp(-0.5 * ((one[:, None] - two[None]) ** 2).sum(2))
    shared = models.words @ anchors.words.T
    union = models.counts[:, None] + anchors.counts[None] - shared
    similarity: Array = 0.5 * near + 0.5 * shared / np.maximum(union, 1)
    return similarity


def _column(models: TraitMatrix, vocabulary: TraitColumns, name: str) -> Array:
    """Return an amount of the first view that counts it; nan where it is not known."""
    for names, view in zip(vocabulary.amounts, models.views, strict=True):
        if name in names:
            column: Array = view[:, names.index(name)]
            return np.where(column > 0, column, np.nan)
    return np.full(len(models.counts), np.nan)


def _knows_activations(models: TraitMatrix, vocabulary: TraitColumns) -> bool:
    return bool(np.isfinite(_column(models, vocabulary, WORK[1])).mean() > 0.5)
