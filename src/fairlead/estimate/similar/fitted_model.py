"""A fitted prediction as arrays, for any number of devices at once.

For a model, every known device says its own time, shifted to the level of the new device; so do made-up
devices, the rooflines and a blend. Their weighted mean, corrected by what was left over at observed
models, is the answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from fairlead.estimate.similar.library import MeasurementLibrary
from fairlead.estimate.similar.traits import Array, Columns, Mask, TraitMatrix, TraitScale

_KNOWN_SHARE = 0.02
"""A model is known if devices of at least this share of the weight have measured it."""


@dataclass(frozen=True, slots=True)
class ModelQueries:
    """Models to be predicted, as a library knows them."""

    values: Array
    """Rows of the library x models; 0 where not known."""
    known: Array
    """1 where a value is known."""
    design: Array
    """Models x a constant and amounts."""
    trait_matrix: TraitMatrix

    @classmethod
    def of(cls, values: Array, sheet: TraitMatrix, scale: TraitScale) -> "ModelQueries":
        """Ask for models of these values, nan where not known, and traits."""
        known = ~np.isnan(values)
        return cls(np.where(known, values, 0.0), known.astype(np.float64), scale.design(sheet), sheet)

    @classmethod
    def at(cls, library: MeasurementLibrary, columns: Columns, scale: TraitScale) -> "ModelQueries":
        """Ask for models of the library."""
        return cls.of(library.rows[:, columns], library.trait_matrix.take(columns), scale)


@dataclass(frozen=True, slots=True)
class FittedModel:
    """One prediction for each device of a stack: every array but `anchors` has them as its first axis."""

    weights: Array
    """Of the library's rows; all weights of a device, with `made_weights`, add up to 1."""
    offsets: Array
    """What each of them is shifted by."""
    pattern: Array
    """How much of each one's ways, beyond the mean, to add."""
    nearest: Columns
    """The devices that a blend is made of."""
    synthetic: Array
    """Made-up devices: coefficients of the nearest devices' seconds and of the design; rows by device."""
    synthetic_weights: Array
    synthetic_pattern: Array
    floor: Array
    """No made-up device is faster, in seconds."""
    anchors: Columns
    """Columns of the library that the smooth correction leans on."""
    smooth: Array
    level: Array
    tilt: Array
    centre: Array
    stretch: Array
    spread: Array
    """The standard deviation of errors at observed models, each predicted without it."""

    def mean(self, asked: ModelQueries) -> tuple[Array, Array]:
        """Return the weighted mean, devices x models, and the made-up rows, devices x rows x models."""
        known = self.weights @ asked.known
        said = self.weights @ asked.values + (self.weights * self.offsets) @ asked.known
        rows = self._rows(asked, _divide(said, known))
        said = said + np.einsum("nr,nrm->nm", self.synthetic_weights, rows)
        return _divide(said, known + self.synthetic_weights.sum(1, keepdims=True)), rows

    def predict(self, asked: ModelQueries, likeness: Array) -> Array:
        """Return logarithms, devices x models; `likeness` is models x anchors."""
        mean, rows = self.mean(asked)
        ways = self.pattern @ asked.values + (self.pattern * self.offsets) @ asked.known
        ways -= (self.pattern @ asked.known) * mean
        ways += np.einsum("nr,nrm->nm", self.synthetic_pattern, rows - mean[:, None])
        tilt = self.tilt * (mean - self.centre) / self.stretch
        predicted: Array = mean + self.level + ways + tilt + self.smooth @ likeness.T
        return predicted

    def knows(self, asked: ModelQueries) -> Mask:
        """Say for which models the library's devices have enough to say, devices x models."""
        share = self.weights @ asked.known
        known: Mask = share > _KNOWN_SHARE * np.maximum(self.weights.sum(1, keepdims=True), 1e-300)
        return known

    def _rows(self, asked: ModelQueries, usual: Array) -> Array:
        size = self.nearest.shape[1]
        seconds = self.synthetic[:, :, size:] @ asked.design.T
        if size:
            times = np.exp(nearest_logs(asked, self.nearest, self.offsets, usual))
            seconds = seconds + self.synthetic[:, :, :size] @ times
        return np.log(np.maximum(seconds, self.floor[:, :, None]))


def nearest_logs(asked: ModelQueries, nearest: Columns, offsets: Array, usual: Array) -> Array:
    """Return what the nearest devices say, or the mean where they are silent: devices x nearest x models."""
    shifts = np.take_along_axis(offsets, nearest, axis=1)
    said = asked.values[nearest] + shifts[:, :, None]
    return np.where(asked.known[nearest] > 0, said, usual[:, None])


def stack(surfaces: Sequence[FittedModel]) -> FittedModel:
    """Join surfaces of one library, so that one pass over arrays predicts for all of them."""
    anchors = np.unique(np.concatenate([surface.anchors for surface in surfaces]))
    rows = max(surface.synthetic.shape[1] for surface in surfaces)
    aligned = [_aligned(surface, anchors, rows) for surface in surfaces]
    names = [field.name for field in fields(FittedModel) if field.name != "anchors"]
    joined = {name: np.concatenate([getattr(surface, name) for surface in aligned]) for name in names}
    return FittedModel(anchors=anchors, **joined)


def _aligned(surface: FittedModel, anchors: Columns, rows: int) -> FittedModel:
    smooth = np.zeros((len(surface.weights), len(anchors)))
    smooth[:, np.searchsorted(anchors, surface.anchors)] = surface.smooth
    more = ((0, 0), (0, rows - surface.synthetic.shape[1]))
    return replace(
        surface,
        anchors=anchors,
        smooth=smooth,
        synthetic=np.pad(surface.synthetic, (*more, (0, 0))),
        synthetic_weights=np.pad(surface.synthetic_weights, more),
        synthetic_pattern=np.pad(surface.synthetic_pattern, more),
        floor=np.pad(surface.floor, more, constant_values=1.0),
    )


def _divide(total: Array, share: Array) -> Array:
    return np.divide(total, share, out=np.zeros_like(total), where=share > 0)
