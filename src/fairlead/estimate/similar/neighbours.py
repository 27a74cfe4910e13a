"""The neighbours of a new device: how far each known device is from it, and how much it counts."""

from dataclasses import dataclass

import numpy as np

from fairlead.estimate.similar.library import MeasurementLibrary
from fairlead.estimate.similar.traits import Array, Columns

_SHARPNESS = 2.5
"""A device twice as far away counts 2 ** -2.5 as much."""
_CLOSEST = 0.01
"""No device is nearer than one percent: measurements differ by that much anyway."""
_FEW = 3
"""With fewer models in common, a device is taken to be at the usual distance, and its words count more."""
_USUAL = 0.3
"""How far apart two devices usually are, in logarithms, at one model."""
_WORDS = 1.5
"""The weight of words: a device that shares all words of one aspect counts e ** 1.5 as much."""


@dataclass(frozen=True, slots=True)
class NeighbourWeights:
    """The weights of known devices for a new one."""

    weights: Array
    """By row of the library, 0 where it cannot be compared; they need not add up to 1."""
    offsets: Array
    """The difference from a device's logarithms to the level of the new device."""
    synthetic: float = 1.0
    """The weight of a synthetic device relative to a real one at the same distance."""


def neighbour_weights(
    library: MeasurementLibrary, columns: Columns, observed: Array, affinity: Array
) -> NeighbourWeights:
    """Compare every known device with a new one over the models that were observed on both.

    `affinity` is the similarity of the library's rows by their words.
    """
    differences = observed - library.rows[:, columns]
    shared = ~np.isnan(differences)
    count = shared.sum(1)
    usable = count >= max(1, min(3, len(columns)), count.max(initial=0) / 2)
    offsets = _medians(differences, usable)
    total = np.where(shared, np.abs(differences - offsets[:, None]), 0).sum(1)
    missing = np.maximum(_FEW - count, 0)
    distance = (total + missing * _USUAL) / np.maximum(count, _FEW) * np.sqrt(1 + 2 / np.maximum(count, 1))
    if not usable.any():
        return no_neighbours(library)
    words = _WORDS * (_FEW / min(len(columns), _FEW))
    pull = np.exp(words * (affinity - affinity[usable].max()))
    return NeighbourWeights(
        np.where(usable, pull * distance_weights(distance), 0.0), offsets, float(np.median(pull[usable]))
    )


def no_neighbours(library: MeasurementLibrary) -> NeighbourWeights:
    """Return the weights where no device can be compared: all zero."""
    return NeighbourWeights(np.zeros(len(library.rows)), np.zeros(len(library.rows)))


def distance_weights(distance: Array) -> Array:
    """Return the weights of devices at these distances."""
    return (distance + _CLOSEST) ** -_SHARPNESS


def _medians(differences: Array, usable: np.ndarray) -> Array:
    medians = np.zeros(len(differences))
    if usable.any():
        medians[usable] = np.nanmedian(differences[usable], axis=1)
    return medians
