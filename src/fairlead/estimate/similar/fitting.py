"""Fit a model: weigh the neighbours, add synthetic devices, and fit the residuals."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fairlead.estimate import nonnegative
from fairlead.estimate.similar.fitted_model import FittedModel, ModelQueries, nearest_logs
from fairlead.estimate.similar.gaussian_process import fit_residuals
from fairlead.estimate.similar.library import MeasurementLibrary
from fairlead.estimate.similar.neighbours import NeighbourWeights, distance_weights
from fairlead.estimate.similar.traits import Array, Columns, TraitScale

_BLENDED: Final = 5
"""The number of devices in a blend."""
_FLOOR: Final = 1e-3
"""A synthetic device is never faster than this share of the least observed time."""
_GAPS: Final = 1 / 3
"""Of the amounts of observed models, the share that may be unknown for a roofline to make sense."""
_EXPECTED_ERROR: Final = 0.15
"""The expected error beforehand; it counts as much as two observations."""
_OWN: Final = 0.3
_OWN_OF_FEW: Final = 0.8
"""How much of the variance at observed models is expected at others, beside the disagreement; more of few."""
_ONE_RUN: Final = 0.125
"""The variance of the level that a single run shows; its confidence is then low."""
_DOUBT: Final = 1.25
_DOUBTLESS: Final = 15.0
"""How much of the disagreement of rows is expected of errors; half of it at this number of runs."""


@dataclass(frozen=True, slots=True)
class ObservedRuns:
    """Measurements on the new device: columns of the library, and logarithms."""

    columns: Columns
    values: Array


@dataclass(frozen=True, slots=True)
class _SyntheticDevices:
    """Synthetic devices: coefficients, predictions for the observed models, and weights."""

    coefficients: Array
    predictions: Array
    """Rows x observed models, each predicted without its own value."""
    weights: Array


def fit_model(
    library: MeasurementLibrary, scale: TraitScale, observed: ObservedRuns, neighbours: NeighbourWeights
) -> FittedModel:
    """Fit one device to the runs observed on it and to its neighbours."""
    queries = ModelQueries.at(library, observed.columns, scale)
    nearest = (
        np.argsort(-neighbours.weights, kind="stable")[:_BLENDED]
        if neighbours.weights.any()
        else np.arange(0)
    )
    synthetic = _synthesise(queries, scale, observed, neighbours, nearest)
    total = max(float(neighbours.weights.sum() + synthetic.weights.sum()), 1e-300)
    plain = _weighted_mean_model(library, neighbours, synthetic, nearest, total, observed)
    predictions = np.where(queries.known > 0, queries.values + neighbours.offsets[:, None], np.nan)
    return _with_residuals(
        plain,
        observed,
        np.vstack([predictions, synthetic.predictions]),
        scale.similarity(queries.trait_matrix, queries.trait_matrix),
    )


def _synthesise(
    queries: ModelQueries,
    scale: TraitScale,
    observed: ObservedRuns,
    neighbours: NeighbourWeights,
    nearest: Columns,
) -> _SyntheticDevices:
    """Make synthetic devices from the observed runs: a roofline of every view, a blend of the nearest."""
    times = np.exp(observed.values)
    designs = _designs(queries, scale, neighbours, nearest) if len(times) else []
    coefficients = np.zeros((len(designs), len(nearest) + queries.design.shape[1]))
    predictions = np.zeros((len(designs), len(times)))
    weights = np.zeros(len(designs))
    for row, (columns, design) in enumerate(designs):
        coefficients[row, columns] = nonnegative.fit(design, times)
        predictions[row] = nonnegative.held_out(design, times)
        errors = observed.values - predictions[row]
        weights[row] = neighbours.synthetic * distance_weights(np.abs(errors - np.median(errors)).mean())
    return _SyntheticDevices(coefficients, predictions, weights)


def _designs(
    queries: ModelQueries, scale: TraitScale, neighbours: NeighbourWeights, nearest: Columns
) -> list[tuple[Columns, Array]]:
    """Return for each synthetic device the indices of its coefficients, and the columns they multiply."""
    size = len(nearest)
    designs: list[tuple[Columns, Array]] = []
    for view, part in zip(queries.trait_matrix.views, scale.parts(), strict=True):
        if view.size and np.isnan(view).mean() < _GAPS:
            designs.append((size + part, queries.design[:, part]))
    if size:
        total = neighbours.weights @ (queries.values + neighbours.offsets[:, None] * queries.known)
        means = total / np.maximum(neighbours.weights @ queries.known, 1e-300)
        times = np.exp(nearest_logs(queries, nearest[None], neighbours.offsets[None], means[None]))[0].T
        own = designs[0][0] - size if designs else np.arange(1)
        designs.append((np.append(np.arange(size), size + own), np.hstack([times, queries.design[:, own]])))
    return designs


def _weighted_mean_model(
    library: MeasurementLibrary,
    neighbours: NeighbourWeights,
    synthetic: _SyntheticDevices,
    nearest: Columns,
    total: float,
    observed: ObservedRuns,
) -> FittedModel:
    """Return a fitted model that is the weighted mean alone."""
    rows = len(synthetic.weights)
    least = float(np.exp(observed.values.min())) if len(observed.values) else 1.0
    one = np.zeros((1, 1))
    return FittedModel(
        weights=neighbours.weights[None] / total,
        offsets=neighbours.offsets[None],
        pattern=np.zeros((1, len(library.rows))),
        nearest=nearest[None],
        synthetic=synthetic.coefficients[None],
        synthetic_weights=synthetic.weights[None] / total,
        synthetic_pattern=np.zeros((1, rows)),
        floor=np.full((1, rows), _FLOOR * least),
        anchors=observed.columns,
        smooth=np.zeros((1, len(observed.columns))),
        level=one,
        tilt=one,
        centre=one,
        stretch=one + 1,
        spread=one,
        doubt=one,
    )


def _with_residuals(
    plain: FittedModel, observed: ObservedRuns, predictions: Array, similarity: Array
) -> FittedModel:
    """Add the fit of the residuals that the weighted mean leaves at the observed models."""
    weights = np.append(plain.weights[0], plain.synthetic_weights[0])
    known = ~np.isnan(predictions)
    share = weights @ known
    mean = np.where(share > 0, weights @ np.nan_to_num(predictions) / np.maximum(share, 1e-300), 0.0)
    deviations = np.where(known, predictions - mean, 0.0)
    centre, stretch = (float(mean.mean()), max(float(mean.std()), 0.3)) if len(mean) else (0.0, 1.0)
    residuals = fit_residuals(
        observed.values - mean,
        (deviations * weights[:, None]).T @ deviations,
        similarity,
        (mean - centre) / stretch,
    )
    pattern = weights * (deviations @ residuals.pattern)
    known_rows = plain.weights.shape[1]
    spread, doubt = _expected_errors(residuals.held_out)
    return replace(
        plain,
        pattern=pattern[None, :known_rows],
        synthetic_pattern=pattern[None, known_rows:],
        smooth=residuals.smooth[None],
        level=np.array([[residuals.level]]),
        tilt=np.array([[residuals.tilt]]),
        centre=np.array([[centre]]),
        stretch=np.array([[stretch]]),
        spread=np.array([[spread]]),
        doubt=np.array([[doubt]]),
    )


def _expected_errors(held_out: Array) -> tuple[float, float]:
    """Return the spread at every model, and the part of the rows' disagreement that adds to it.

    Fitted on 28,000 predictions of 19 published tables, each with the same weight: few runs show less of the
    errors at other models, and there the disagreement counts more.
    """
    runs = max(len(held_out), 1)
    error = (float((held_out**2).sum()) + 2 * _EXPECTED_ERROR**2) / (runs + 2)
    own = (_OWN + _OWN_OF_FEW / runs) * error + _ONE_RUN / runs**4
    return float(np.sqrt(own)), _DOUBT / (1 + runs / _DOUBTLESS)
