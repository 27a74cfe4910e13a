"""A fitted model as arrays, for any number of devices at once.

To predict a model, every known device contributes its own time, shifted to the level of the new device; so do
synthetic devices, the rooflines and a blend. The prediction is their weighted mean, corrected by residuals
at observed models.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from fairlead.estimate.similar.library import MeasurementLibrary
from fairlead.estimate.similar.traits import Array, Columns, Mask, TraitMatrix, TraitScale

_KNOWN_SHARE = 0.02
"""A model is known if devices with at least this share of the weight have measured it."""


@dataclass(frozen=True, slots=True)
class ModelQueries:
    """Models to predict, with their values in a library."""

    values: Array
    """Rows of the library x models; 0 where not known."""
    known: Array
    """1 where a value is known."""
    design: Array
    """Models x a constant and amounts."""
    trait_matrix: TraitMatrix

    @classmethod
    def of(cls, values: Array, trait_matrix: TraitMatrix, scale: TraitScale) -> "ModelQueries":
        """Return the queries of models with these values, nan where not known, and these traits."""
        known = ~np.isnan(values)
        return cls(
            np.where(known, values, 0.0), known.astype(np.float64), scale.design(trait_matrix), trait_matrix
        )

    @classmethod
    def at(cls, library: MeasurementLibrary, columns: Columns, scale: TraitScale) -> "ModelQueries":
        """Return the queries of some models of the library."""
        return cls.of(library.rows[:, columns], library.trait_matrix.take(columns), scale)


@dataclass(frozen=True, slots=True)
class FittedModel:
    """One prediction for each device of a stack: every array but `anchors` has them as its first axis."""

    weights: Array
    """Of the library's rows; all weights of a device, with `synthetic_weights`, add up to 1."""
    offsets: Array
    """The shift of each row."""
    pattern: Array
    """The coefficient of each row's deviation from the mean."""
    nearest: Columns
    """The devices of the blend."""
    synthetic: Array
    """Synthetic devices: coefficients of the nearest devices' seconds and of the design; rows by device."""
    synthetic_weights: Array
    synthetic_pattern: Array
    floor: Array
    """The least seconds of each synthetic device."""
    anchors: Columns
    """Columns of the library that the smooth correction is a function of."""
    smooth: Array
    level: Array
    tilt: Array
    centre: Array
    stretch: Array
    spread: Array
    """The standard deviation of errors that is expected at every model."""
    doubt: Array
    """How much of the variance among rows is expected beside that, where they disagree about a model."""

    def mean(self, queries: ModelQueries) -> tuple[Array, Array]:
        """Return the weighted mean, devices x models, and the synthetic rows, devices x rows x models."""
        known = self.weights @ queries.known
        total = self.weights @ queries.values + (self.weights * self.offsets) @ queries.known
        rows = self._rows(queries, _divide(total, known))
        total = total + np.einsum("nr,nrm->nm", self.synthetic_weights, rows)
        return _divide(total, known + self.synthetic_weights.sum(1, keepdims=True)), rows

    def predict(self, queries: ModelQueries, similarity: Array) -> Array:
        """Return logarithms, devices x models; `similarity` is models x anchors."""
        mean, rows = self.mean(queries)
        deviation = self.pattern @ queries.values + (self.pattern * self.offsets) @ queries.known
        deviation -= (self.pattern @ queries.known) * mean
        deviation += np.einsum("nr,nrm->nm", self.synthetic_pattern, rows - mean[:, None])
        tilt = self.tilt * (mean - self.centre) / self.stretch
        predicted: Array = mean + self.level + deviation + tilt + self.smooth @ similarity.T
        return predicted

    def spreads(self, queries: ModelQueries) -> Array:
        """Return the expected standard deviations of errors, devices x models."""
        spreads: Array = np.sqrt(self.spread**2 + self.doubt * self.disagreement(queries))
        return spreads

    def disagreement(self, queries: ModelQueries) -> Array:
        """Return the weighted variance of the rows around their mean, devices x models."""
        mean, rows = self.mean(queries)
        shifted = queries.values[None] + self.offsets[:, :, None] - mean[:, None]
        total = np.einsum("nr,nrm->nm", self.weights, shifted**2 * queries.known[None])
        total += np.einsum("nr,nrm->nm", self.synthetic_weights, (rows - mean[:, None]) ** 2)
        return _divide(total, self.weights @ queries.known + self.synthetic_weights.sum(1, keepdims=True))

    def knows(self, queries: ModelQueries) -> Mask:
        """Say which models enough devices of the library have measured, devices x models."""
        share = self.weights @ queries.known
        known: Mask = share > _KNOWN_SHARE * np.maximum(self.weights.sum(1, keepdims=True), 1e-300)
        return known

    def _rows(self, queries: ModelQueries, means: Array) -> Array:
        size = self.nearest.shape[1]
        seconds = self.synthetic[:, :, size:] @ queries.design.T
        if size:
            times = np.exp(nearest_logs(queries, self.nearest, self.offsets, means))
            seconds = seconds + self.synthetic[:, :, :size] @ times
        return np.log(np.maximum(seconds, self.floor[:, :, None]))


def nearest_logs(queries: ModelQueries, nearest: Columns, offsets: Array, means: Array) -> Array:
    """Return the nearest devices' values, or the mean where they have none: devices x nearest x models."""
    shifts = np.take_along_axis(offsets, nearest, axis=1)
    values = queries.values[nearest] + shifts[:, :, None]
    return np.where(queries.known[nearest] > 0, values, means[:, None])


def stack(models: Sequence[FittedModel]) -> FittedModel:
    """Join fitted models of one library, so that one pass over arrays predicts for all of them."""
    anchors = np.unique(np.concatenate([model.anchors for model in models]))
    rows = max(model.synthetic.shape[1] for model in models)
    aligned = [_aligned(model, anchors, rows) for model in models]
    names = [field.name for field in fields(FittedModel) if field.name != "anchors"]
    joined = {name: np.concatenate([getattr(model, name) for model in aligned]) for name in names}
    return FittedModel(anchors=anchors, **joined)


def _aligned(model: FittedModel, anchors: Columns, rows: int) -> FittedModel:
    smooth = np.zeros((len(model.weights), len(anchors)))
    smooth[:, np.searchsorted(anchors, model.anchors)] = model.smooth
    more = ((0, 0), (0, rows - model.synthetic.shape[1]))
    return replace(
        model,
        anchors=anchors,
        smooth=smooth,
        synthetic=np.pad(model.synthetic, (*more, (0, 0))),
        synthetic_weights=np.pad(model.synthetic_weights, more),
        synthetic_pattern=np.pad(model.synthetic_pattern, more),
        floor=np.pad(model.floor, more, constant_values=1.0),
    )


def _divide(total: Array, share: Array) -> Array:
    return np.divide(total, share, out=np.zeros_like(total), where=share > 0)
