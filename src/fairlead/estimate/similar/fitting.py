"""Fit a surface: find the near devices, make up more of them, and explain what is left over."""

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
"""A blend is made of so many devices."""
_FLOOR: Final = 1e-3
"""A made-up device is never faster than this share of the least time observed."""
_GAPS: Final = 1 / 3
"""Of the amounts of observed models, the share that may be unknown for a roofline to make sense."""
_EXPECTED_ERROR: Final = 0.15
"""What errors are expected to be, as good as two observations say so."""


@dataclass(frozen=True, slots=True)
class ObservedRuns:
    """What was measured on the new device: columns of the library, and logarithms."""

    columns: Columns
    values: Array


@dataclass(frozen=True, slots=True)
class _SyntheticDevices:
    """Made-up devices: coefficients, what they say of the observed models, and how much they count."""

    coefficients: Array
    predictions: Array
    """Rows x observed models, each predicted without it."""
    weights: Array


def fit_model(
    library: MeasurementLibrary, scale: TraitScale, observed: ObservedRuns, found: NeighbourWeights
) -> FittedModel:
    """Fit one device to what was observed on it and to the devices that were found near."""
    asked = ModelQueries.at(library, observed.columns, scale)
    nearest = np.argsort(-found.weights, kind="stable")[:_BLENDED] if found.weights.any() else np.arange(0)
    made = _synthesise(asked, scale, observed, found, nearest)
    total = max(float(found.weights.sum() + made.weights.sum()), 1e-300)
    blank = _weighted_mean_model(library, found, made, nearest, total, observed)
    said = np.where(asked.known > 0, asked.values + found.offsets[:, None], np.nan)
    return _with_residuals(
        blank,
        observed,
        np.vstack([said, made.predictions]),
        scale.similarity(asked.trait_matrix, asked.trait_matrix),
    )


def _synthesise(
    asked: ModelQueries, scale: TraitScale, observed: ObservedRuns, found: NeighbourWeights, nearest: Columns
) -> _SyntheticDevices:
    """Make up devices from what was observed: a roofline of every view, a blend of the nearest devices."""
    times = np.exp(observed.values)
    designs = _designs(asked, scale, found, nearest) if len(times) else []
    coefficients = np.zeros((len(designs), len(nearest) + asked.design.shape[1]))
    said = np.zeros((len(designs), len(times)))
    weights = np.zeros(len(designs))
    for row, (places, design) in enumerate(designs):
        coefficients[row, places] = nonnegative.fit(design, times)
        said[row] = nonnegative.held_out(design, times)
        errors = observed.values - said[row]
        weights[row] = found.synthetic * distance_weights(np.abs(errors - np.median(errors)).mean())
    return _SyntheticDevices(coefficients, said, weights)


def _designs(
    asked: ModelQueries, scale: TraitScale, found: NeighbourWeights, nearest: Columns
) -> list[tuple[Columns, Array]]:
    """Return for each made-up device which coefficients it has, and what they are multiplied with."""
    size = len(nearest)
    designs: list[tuple[Columns, Array]] = []
    for view, part in zip(asked.trait_matrix.views, scale.parts(), strict=True):
        if view.size and np.isnan(view).mean() < _GAPS:
            designs.append((size + part, asked.design[:, part]))
    if size:
        said = found.weights @ (asked.values + found.offsets[:, None] * asked.known)
        usual = said / np.maximum(found.weights @ asked.known, 1e-300)
        near = np.exp(nearest_logs(asked, nearest[None], found.offsets[None], usual[None]))[0].T
        own = designs[0][0] - size if designs else np.arange(1)
        designs.append((np.append(np.arange(size), size + own), np.hstack([near, asked.design[:, own]])))
    return designs


def _weighted_mean_model(
    library: MeasurementLibrary,
    found: NeighbourWeights,
    made: _SyntheticDevices,
    nearest: Columns,
    total: float,
    observed: ObservedRuns,
) -> FittedModel:
    """Return a surface that is the weighted mean alone."""
    rows = len(made.weights)
    least = float(np.exp(observed.values.min())) if len(observed.values) else 1.0
    one = np.zeros((1, 1))
    return FittedModel(
        weights=found.weights[None] / total,
        offsets=found.offsets[None],
        pattern=np.zeros((1, len(library.rows))),
        nearest=nearest[None],
        synthetic=made.coefficients[None],
        synthetic_weights=made.weights[None] / total,
        synthetic_pattern=np.zeros((1, rows)),
        floor=np.full((1, rows), _FLOOR * least),
        anchors=observed.columns,
        smooth=np.zeros((1, len(observed.columns))),
        level=one,
        tilt=one,
        centre=one,
        stretch=one + 1,
        spread=one,
    )


def _with_residuals(blank: FittedModel, observed: ObservedRuns, said: Array, alike: Array) -> FittedModel:
    """Add what explains the errors that the weighted mean makes at the observed models."""
    weights = np.append(blank.weights[0], blank.synthetic_weights[0])
    known = ~np.isnan(said)
    share = weights @ known
    mean = np.where(share > 0, weights @ np.nan_to_num(said) / np.maximum(share, 1e-300), 0.0)
    ways = np.where(known, said - mean, 0.0)
    centre, stretch = (float(mean.mean()), max(float(mean.std()), 0.3)) if len(mean) else (0.0, 1.0)
    left = fit_residuals(
        observed.values - mean, (ways * weights[:, None]).T @ ways, alike, (mean - centre) / stretch
    )
    pattern = weights * (ways @ left.pattern)
    real = blank.weights.shape[1]
    error = (float((left.held_out**2).sum()) + 2 * _EXPECTED_ERROR**2) / (len(mean) + 2)
    return replace(
        blank,
        pattern=pattern[None, :real],
        synthetic_pattern=pattern[None, real:],
        smooth=left.smooth[None],
        level=np.array([[left.level]]),
        tilt=np.array([[left.tilt]]),
        centre=np.array([[centre]]),
        stretch=np.array([[stretch]]),
        spread=np.array([[np.sqrt(error)]]),
    )
