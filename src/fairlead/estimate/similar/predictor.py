"""Fit a device from a few runs and from the library of others, then predict any model on it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fairlead.estimate.similar.device import DeviceTraits, word_similarity
from fairlead.estimate.similar.fitted_model import FittedModel, ModelQueries, stack
from fairlead.estimate.similar.fitting import ObservedRuns, fit_model
from fairlead.estimate.similar.library import MeasurementLibrary
from fairlead.estimate.similar.neighbours import neighbour_weights, no_neighbours
from fairlead.estimate.similar.prior import DevicePrior, device_prior
from fairlead.estimate.similar.traits import Array, Columns, Mask, ModelTraits, TraitMatrix, TraitScale
from fairlead.estimate.similar.unseen import UnseenEstimates, UnseenFit, fit_unseen
from fairlead.prediction import Z90, confidence

_MOST: Final = 800
"""The most observations used: cost grows with the third power of their number, and more add little."""
_OF_PRIOR: Final = 0.55
_UNSEEN_LEVEL: Final = 0.38
_DOUBT: Final = 0.75
"""Without runs: the part of the prior's spread, what is there always, and the part of devices' disagreement.
Fitted on 4,500 predictions of 15 published tables, each with the same weight."""
_BOUNDED: Final = "far from what ran on the device: bounded by a roofline and by the most similar run"
_ENOUGH: Final = 16
"""This number of models shows what a device is like."""


@dataclass(frozen=True, slots=True)
class SimilarityEstimate:
    """A prediction and how far to trust it."""

    mean: float
    """Seconds, or watts: as likely too high as too low."""
    p90: float
    """Nine of ten runs stay below it."""
    confidence: str
    """`high`, `medium` or `low`, by the errors at observed models."""
    reason: str = ""
    """Why it is doubtful, beside its spread."""


@dataclass(frozen=True, slots=True)
class Predictor:
    """Predictions for one device, or for a stack of them."""

    library: MeasurementLibrary
    scale: TraitScale
    warm: FittedModel
    """For models that devices of the library have run."""
    cold: FittedModel
    """For models that no device has run, where their work is counted in amounts of another kind."""
    unseen: tuple[UnseenFit | None, ...] = ()
    """For models that no device has run, by device."""

    def at(self, columns: Columns) -> tuple[Array, Array]:
        """Return logarithms and their spreads, devices x models, for columns of the library."""
        return self._predict(ModelQueries.at(self.library, columns, self.scale))[:2]

    def predict(self, models: Sequence[ModelTraits]) -> list[list[SimilarityEstimate]]:
        """Return estimates, by device and then by model."""
        columns = [self.library.column(model.name) for model in models]
        known = [column for column in columns if column is not None]
        values = np.full((len(self.library.rows), len(models)), np.nan)
        values[:, [column is not None for column in columns]] = self.library.rows[:, known]
        queries = ModelQueries.of(values, self.library.vocabulary.trait_matrix(models), self.scale)
        logs, spreads, bounded = self._predict(queries)
        return [
            [_estimate(*row) for row in zip(*rows, strict=True)]
            for rows in zip(logs, spreads, bounded, strict=True)
        ]

    def _predict(self, queries: ModelQueries) -> tuple[Array, Array, Mask]:
        """Return logarithms, spreads, and where a bound decided."""
        is_known = self.warm.knows(queries)
        logs, spreads = np.zeros(is_known.shape), np.zeros(is_known.shape)
        for selected, model in ((is_known, self.warm), (~is_known & self._other_amounts(), self.cold)):
            if selected.any():
                similarity = self.scale.similarity(
                    queries.trait_matrix, self.library.trait_matrix.take(model.anchors)
                )
                logs = np.where(selected, model.predict(queries, similarity), logs)
                spreads = np.where(selected, model.spreads(queries), spreads)
        return self._with_unseen(queries.trait_matrix, is_known, logs, spreads)

    def _other_amounts(self) -> Mask:
        """Say, devices x 1, for which devices the unseen models are predicted by `cold`."""
        missing = [fit is None for fit in self.unseen] or [True] * len(self.warm.level)
        return np.array(missing)[:, None]

    def _with_unseen(
        self, models: TraitMatrix, is_known: Mask, logs: Array, spreads: Array
    ) -> tuple[Array, Array, Mask]:
        bounded = np.zeros(is_known.shape, dtype=bool)
        estimates: dict[int, UnseenEstimates] = {}  # devices of one fit, and one set of models, share them
        for row, unseen in enumerate(self.unseen):
            new = np.flatnonzero(~is_known[row])
            if unseen is None or not len(new):
                continue
            if id(unseen) not in estimates:
                estimates[id(unseen)] = unseen.predict(models)
            one = estimates[id(unseen)]
            logs[row, new], bounded[row, new] = one.logs[new], one.bounded[new]
            spreads[row, new] = one.spreads[new]
        return logs, spreads, bounded


def fit(
    device: DeviceTraits, runs: Sequence[tuple[ModelTraits, float]], library: MeasurementLibrary
) -> Predictor:
    """Fit a device to the seconds (or watts) that models took on it, and to the library of other devices.

    Without runs, the device's words and figures are compared with those of the library's devices.
    """
    extended = library.with_models(model for model, _ in runs)
    columns = [column for model, _ in runs if (column := extended.column(model.name)) is not None]
    values = np.log([value for _, value in runs])
    return fit_columns(device, np.array(columns, dtype=np.intp), values, extended)


def fit_columns(
    device: DeviceTraits, columns: Columns, values: Array, library: MeasurementLibrary
) -> Predictor:
    """Fit a device to logarithms observed on it, of models that are columns of the library."""
    observed = ObservedRuns(
        np.asarray(columns, dtype=np.intp)[:_MOST], np.asarray(values, dtype=np.float64)[:_MOST]
    )
    scale = library.scale or TraitScale.of(library.trait_matrix.take(observed.columns))
    affinity = _affinity(device, library)
    if not len(observed.columns):
        return _predictor_without_runs(library, scale, device_prior(device, library, affinity))
    cold = fit_model(library, scale, observed, no_neighbours(library))
    unseen = fit_unseen(observed.columns, observed.values, library.trait_matrix, library.vocabulary)
    neighbours = neighbour_weights(library, observed.columns, observed.values, affinity)
    shared = (~np.isnan(library.rows[neighbours.weights > 0][:, observed.columns])).any(0)
    if not shared.any():
        return Predictor(library, scale, cold, cold, (unseen,))
    known = ObservedRuns(observed.columns[shared], observed.values[shared])
    return Predictor(library, scale, fit_model(library, scale, known, neighbours), cold, (unseen,))


def join(predictors: Sequence[Predictor]) -> Predictor:
    """Join predictors of one library, so that one pass over arrays predicts for all of them."""
    first = predictors[0]
    if any(
        predictor.library is not first.library or predictor.scale is not first.scale
        for predictor in predictors
    ):
        raise ValueError("predictors of different libraries cannot be joined")
    return Predictor(
        first.library,
        first.scale,
        stack([predictor.warm for predictor in predictors]),
        stack([predictor.cold for predictor in predictors]),
        tuple(fit for predictor in predictors for fit in predictor.unseen),
    )


def _predictor_without_runs(library: MeasurementLibrary, scale: TraitScale, prior: DevicePrior) -> Predictor:
    """Predict by the mean of devices with similar traits; a roofline of that mean serves cold models."""
    known = np.flatnonzero(~np.isnan(library.rows[-1]))[:_ENOUGH]
    no_runs = ObservedRuns(known[:0], np.zeros(0))
    warm = fit_model(library, scale, no_runs, prior.neighbours)
    mean = warm.mean(ModelQueries.at(library, known, scale))[0][0]
    cold = fit_model(library, scale, ObservedRuns(known, mean), no_neighbours(library))
    spread = np.array([[np.hypot(_OF_PRIOR * prior.spread, _UNSEEN_LEVEL)]])
    doubt = np.array([[_DOUBT]])
    warm, cold = replace(warm, spread=spread, doubt=doubt), replace(cold, spread=spread, doubt=doubt)
    return Predictor(library, scale, warm, cold, (None,))


def _affinity(device: DeviceTraits, library: MeasurementLibrary) -> Array:
    """Return the similarity of the library's rows by their words; the average device has the median."""
    similarity = word_similarity(device, library.devices)
    return np.append(similarity, np.median(similarity) if len(similarity) else 0.0)


def _estimate(log: float, spread: float, bounded: bool) -> SimilarityEstimate:
    reason = _BOUNDED if bounded else ""
    mean, p90 = float(np.exp(log)), float(np.exp(log + Z90 * spread))
    return SimilarityEstimate(mean, p90, confidence(spread), reason)
