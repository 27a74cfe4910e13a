"""The prior of a device without runs: its speed, from data sheets and words of the measured devices.

How slow a device is on the whole falls with the operations that its data sheet promises. The residual is a
smooth function of its kind and of the words that describe it: Gaussian process regression over known devices.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from fairlead.estimate.similar.device import DeviceTraits, shared_words
from fairlead.estimate.similar.library import MeasurementLibrary
from fairlead.estimate.similar.neighbours import NeighbourWeights
from fairlead.estimate.similar.traits import Array, Columns

_GAIN: Final = 0.7
"""A device of e times the operations takes e ** -0.7 of the time: small models do not fill large devices."""
_VARIANCES: Final = {"gain": 0.02, "kind": 0.5, "unknown": 0.5, "level": 2.0, "noise": 0.1}
_ASPECTS: Final = (0.5, 0.3, 0.2, 0.1)
"""Variances of the words of each aspect."""
_ENOUGH: Final = 250
"""The most devices compared, the most similar first."""
_SHAPE: Final = 3.0
"""The weight of words for which models a device runs well."""


@dataclass(frozen=True, slots=True)
class DevicePrior:
    """The expected weights of known devices for the new one, and how wrong they may be."""

    neighbours: NeighbourWeights
    spread: float


def device_prior(device: DeviceTraits, library: MeasurementLibrary, affinity: Array) -> DevicePrior:
    """Return the prior of a device; `affinity` is by row of the library."""
    weights = np.exp(_SHAPE * (affinity - affinity.max()))
    levels = np.append(library.levels, 0.0)
    level, spread = _level(device, library, np.argsort(-affinity[:-1], kind="stable")[:_ENOUGH])
    return DevicePrior(NeighbourWeights(weights, level - levels), spread)


def _level(device: DeviceTraits, library: MeasurementLibrary, chosen: Columns) -> tuple[float, float]:
    """Return the expected level of the device relative to the average one, and its standard deviation."""
    if not len(chosen):
        return 0.0, 1.0
    devices = [*(library.devices[index] for index in chosen), device]
    shares = shared_words(devices)
    speeds, guessed = _speeds(devices, shares)
    kinds = np.array([known_device.kind for known_device in devices])
    same = kinds[:, None] == kinds[None]
    covariance = _VARIANCES["level"] + _VARIANCES["gain"] * np.outer(speeds, speeds)
    covariance += _VARIANCES["kind"] * same + _VARIANCES["unknown"] * np.outer(guessed, guessed)
    covariance += np.tensordot(np.array(_ASPECTS[: len(shares)]), shares[: len(_ASPECTS)], axes=1)
    counts = (~np.isnan(library.rows[chosen])).sum(1)
    noise = _VARIANCES["noise"] * (1 + 2 / np.maximum(counts, 1))
    residuals = library.levels[chosen] + _GAIN * speeds[:-1]
    gains = np.linalg.solve(covariance[:-1, :-1] + np.diag(noise), covariance[:-1, -1])
    level = float(residuals.mean() + gains @ (residuals - residuals.mean()) - _GAIN * speeds[-1])
    return level, float(np.sqrt(max(covariance[-1, -1] - gains @ covariance[:-1, -1], 0.01)))


def _speeds(devices: list[DeviceTraits], shares: Array) -> tuple[Array, Array]:
    """Return logarithms of operations, about their mean, and 1 where they are guessed from words only."""
    known = np.array([bool(device.ops) for device in devices])
    speeds = np.log([device.ops or 1.0 for device in devices])
    if not known.any():
        return np.zeros(len(devices)), np.ones(len(devices))
    pull = np.exp(2 * _SHAPE * (shares[0] if len(shares) else np.zeros((len(devices), len(devices))))) * known
    guesses = pull @ np.where(known, speeds, 0) / pull.sum(1)
    speeds = np.where(known, speeds, guesses)
    return speeds - speeds[:-1].mean(), (~known).astype(np.float64)
