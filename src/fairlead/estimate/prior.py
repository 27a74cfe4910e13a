"""A device on which nothing was run: its speed, guessed from words and data sheets of devices that were."""

from dataclasses import dataclass

import numpy as np

from fairlead.estimate.device import Device
from fairlead.estimate.library import Library
from fairlead.estimate.near import Near
from fairlead.estimate.traits import Array


@dataclass(frozen=True, slots=True)
class Guess:
    """Known devices as they would be seen from the new one, and how wrong that may be."""

    near: Near
    spread: float


def unseen(device: Device, library: Library, affinity: Array) -> Guess:
    """Guess what a device is like."""
    levels = np.append(library.levels, 0.0)
    weights = np.exp(3 * (affinity - affinity.max()))
    level = float(weights @ levels / weights.sum())
    return Guess(Near(weights, level - levels), 0.5)
