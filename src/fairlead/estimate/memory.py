"""How much memory a model takes on a device: its process, weights, copies of them, and live activations."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from fairlead.calibration import Trial
from fairlead.estimate import nonnegative
from fairlead.estimate.amounts import MEMORY, Array, amounts

_STRENGTH: Final = 0.03
"""Weight of the runtime's typical figures beside the measured ones: they decide what trials leave open."""


def fit(trials: Sequence[Trial], typical: Array) -> Array:
    """Return the bytes of each amount, from measured peaks and, where there are none, typical figures."""
    runs = [(trial.features, trial.measured) for trial in trials if trial.measured]
    known = [(model, run) for model, run in runs if run.peak_bytes > 0]
    if not known:
        return typical
    design = np.array([amounts(model).memory for model, _ in known])
    peaks = np.array([float(run.peak_bytes) for _, run in known])
    return nonnegative.fit_near(design, peaks, np.maximum(typical, _least(peaks)), _STRENGTH)


def _least(peaks: Array) -> Array:
    """Return figures that are negligible, for runtimes without typical ones."""
    return np.array([1e-3 * float(peaks.min()), *[1e-3] * (len(MEMORY) - 1)])
