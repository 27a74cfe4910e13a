"""A fitted prediction as arrays, for any number of devices at once.

For a model, every known device says its own time, shifted to the level of the new device; so do two made-up devices, a
roofline and a blend. Their weighted mean, corrected by what was left over at the observed models, is the prediction.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from fairlead.estimate.library import Library
from fairlead.estimate.traits import Array, Columns, Scale, Sheet

_RARE = 0.02
"""A model is known if devices of at least this share of the weight have measured it."""


@dataclass(frozen=True, slots=True)
class Questions:
    """Models to be predicted, as a library knows them."""

    values: Array
    """Devices of the library x models, 0 where not known."""
    known: Array
    """1 where a value is known."""
    sheet: Sheet
    designs: tuple[Array, ...]

    @classmethod
    def of(cls, library: Library, scale: Scale, columns: Columns) -> "Questions":
        """Ask for models of the library."""
        return cls.about(library.values[:, columns], library.sheet.take(columns), scale)

    @classmethod
    def about(cls, values: Array, sheet: Sheet, scale: Scale) -> "Questions":
        """Ask for models of these values and traits."""
        known = ~np.isnan(values)
        designs = tuple(scale.design(sheet, view) for view in range(len(sheet.views)))
        return cls(np.where(known, values, 0.0), known.astype(np.float64), sheet, designs)


@dataclass(frozen=True, slots=True)
class Surface:
    """One prediction for each device of a stack: all arrays have a first axis of devices."""

    weights: Array
    """Of the library's devices."""
    offsets: Array
    pattern: Array
    """How much of each device's own ways, beyond the mean, to add."""
    roofs: Array
    """Views x (1 + amounts): the seconds of a start and of one of each amount; padded with zeros."""
    roof_weights: Array
    roof_pattern: Array
    nearest: Columns
    """The devices in the blend."""
    blend: Array
    """Coefficients of the nearest devices, then of the first view."""
    blend_weight: Array
    blend_pattern: Array
    floor: Array
    """No roofline or blend is below it."""
    anchors: Columns
    """Columns of the library that the smooth correction leans on; the same for all devices."""
    smooth: Array
    level: Array
    tilt: Array
    centre: Array
    stretch: Array

    def mean(self, asked: Questions) -> tuple[Array, Array]:
        """Return the weighted mean of what all rows say, and the made-up rows: devices x rows x models."""
        known = self.weights @ asked.known
        said = self.weights @ asked.values + (self.weights * self.offsets) @ asked.known
        rows = self._rows(asked, np.divide(said, known, out=np.zeros_like(said), where=known > 0))
        made = np.concatenate([self.roof_weights, self.blend_weight], axis=1)
        total = known + made.sum(1, keepdims=True)
        said = said + np.einsum("nr,nrm->nm", made, rows)
        return np.divide(said, total, out=np.zeros_like(said), where=total > 0), rows

    def predict(self, asked: Questions, likeness: Array) -> Array:
        """Return logarithms, devices x models; `likeness` is models x anchors."""
        mean, rows = self.mean(asked)
        made = np.concatenate([self.roof_pattern, self.blend_pattern], axis=1)
        ways = self.pattern @ asked.values + (self.pattern * self.offsets) @ asked.known
        ways -= (self.pattern @ asked.known) * mean
        ways += np.einsum("nr,nrm->nm", made, rows - mean[:, None])
        tilt = self.tilt * (mean - self.centre) / self.stretch
        predicted: Array = mean + self.level + ways + tilt + self.smooth @ likeness.T
        return predicted

    def knows(self, asked: Questions) -> np.ndarray:
        """Say for which models the library's devices have enough to say, devices x models."""
        share = self.weights @ asked.known
        return share > _RARE * np.maximum(self.weights.sum(1, keepdims=True), 1e-300)

    def _rows(self, asked: Questions, usual: Array) -> Array:
        rows = [
            self._positive(self.roofs[:, view, : design.shape[1]] @ design.T)
            for view, design in enumerate(asked.designs)
        ]
        if self.blend_weight.shape[1]:
            size = self.nearest.shape[1]
            times = np.exp(neighbours(asked, self.nearest, self.offsets, usual))
            summed = np.einsum("nk,nkm->nm", self.blend[:, :size], times)
            if asked.designs:
                summed = summed + self.blend[:, size:] @ asked.designs[0].T
            rows.append(self._positive(summed))
        return np.stack(rows, axis=1) if rows else np.zeros((len(usual), 0, usual.shape[1]))

    def _positive(self, seconds: Array) -> Array:
        return np.log(np.maximum(seconds, self.floor))


def neighbours(asked: Questions, nearest: Columns, offsets: Array, usual: Array) -> Array:
    """Return what the nearest devices say, or the mean where they are silent: devices x nearest x models."""
    shifts = np.take_along_axis(offsets, nearest, axis=1)
    said = asked.values[nearest] + shifts[:, :, None]
    return np.where(asked.known[nearest] > 0, said, usual[:, None])


def stack(surfaces: Sequence[Surface]) -> Surface:
    """Join surfaces of one library, so that one pass of arrays predicts for all of them."""
    anchors = np.unique(np.concatenate([surface.anchors for surface in surfaces]))
    wide = max(surface.nearest.shape[1] for surface in surfaces)
    joined = {}
    aligned = [_aligned(surface, anchors, wide) for surface in surfaces]
    for field in fields(Surface):
        parts = [getattr(surface, field.name) for surface in aligned]
        joined[field.name] = parts[0] if field.name == "anchors" else np.concatenate(parts)
    return Surface(**joined)
