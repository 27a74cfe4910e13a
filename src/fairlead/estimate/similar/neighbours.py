"""Which known devices resemble a new one: how far each is, and how much it counts."""

from dataclasses import dataclass

import numpy as np

from fairlead.estimate.similar.library import MeasurementLibrary
from fairlead.estimate.similar.traits import Array, Columns

_SHARPNESS = 2.5
"""A device twice as far counts 2 ** -2.5 as much."""
_CLOSEST = 0.01
"""Nobody is nearer than one percent: measurements differ by that much anyway."""
_WORDS = 1.5
"""How much words count: a device that shares all of one aspect counts e ** 1.5 as much."""


@dataclass(frozen=True, slots=True)
class NeighbourWeights:
    """Known devices as seen from a new one."""

    weights: Array
    """By row of the library, 0 where it cannot be compared; they need not add up to 1."""
    offsets: Array
    """What to add to a device's logarithms to come to the level of the new one."""
    synthetic: float = 1.0
    """How much a made-up device counts beside a real one that is as near."""


def neighbour_weights(
    library: MeasurementLibrary, columns: Columns, observed: Array, affinity: Array
) -> NeighbourWeights:
    """Compare every known device with a new one over the models that were observed on both.

    `affinity` says how alike rows of the library are by their words.
    """
    apart = observed - library.rows[:, columns]
    shared = ~np.isnan(apart)
    count = shared.sum(1)
    usable = count >= max(2, min(3, len(columns)), count.max(initial=0) / 2)
    offsets = _medians(apart, usable)
    distance = np.where(shared, np.abs(apart - offsets[:, None]), 0).sum(1) / np.maximum(count, 1)
    distance *= np.sqrt(1 + 2 / np.maximum(count, 1))
    if not usable.any():
        return no_neighbours(library)
    pull = np.exp(_WORDS * (affinity - affinity[usable].max()))
    return NeighbourWeights(
        np.where(usable, pull * distance_weights(distance), 0.0), offsets, float(np.median(pull[usable]))
    )


def no_neighbours(library: MeasurementLibrary) -> NeighbourWeights:
    """Return what there is to see where no device can be compared."""
    return NeighbourWeights(np.zeros(len(library.rows)), np.zeros(len(library.rows)))


def distance_weights(distance: Array) -> Array:
    """Return how much devices at these distances count."""
    return (distance + _CLOSEST) ** -_SHARPNESS


def _medians(apart: Array, usable: np.ndarray) -> Array:
    medians = np.zeros(len(apart))
    if usable.any():
        medians[usable] = np.nanmedian(apart[usable], axis=1)
    return medians
