"""How much memory a model takes on a device: its process, weights, copies of them, and live activations."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from fairlead.calibration import Trial
from fairlead.estimate import nonnegative
from fairlead.estimate.amounts import MEMORY, Array, amounts

_STRENGTH: Final = 0.03
"""How much the runtime's usual figures count beside what was measured: they decide what trials leave open."""


def fit(trials: Sequence[Trial], usual: Array) -> Array:
    """Return what each amount takes, from measured peaks and, where these say nothing, from what is usual."""
    done = [(trial.features, trial.measured) for trial in trials if trial.measured]
    known = [(model, found) for model, found in done if found.peak_bytes > 0]
    if not known:
        return usual
    design = np.array([amounts(model).memory for model, _ in known])
    peaks = np.array([float(found.peak_bytes) for _, found in known])
    return nonnegative.fit_near(design, peaks, np.maximum(usual, _least(peaks)), _STRENGTH)


def _least(peaks: Array) -> Array:
    """Return figures small enough to say nothing, where a runtime has none."""
    return np.array([1e-3 * float(peaks.min()), *[1e-3] * (len(MEMORY) - 1)])
