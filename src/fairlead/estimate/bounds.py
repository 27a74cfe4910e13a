"""Keep estimates of a calibrated device within reach of its roofline and of the most similar model that ran.

Few runs may fit costs that are wrong for a model unlike all of them; enough runs tell every cost, and no
bound is needed. The roofline is the data sheet's, at the level of the runs.
"""

from typing import Final

import numpy as np

from fairlead.estimate.amounts import Array
from fairlead.estimate.calibrated import ENOUGH_MODELS, CalibratedFit

LOWEST: Final = 0.3
HIGHEST: Final = 3.0
"""How far beyond the roofline and the most similar run an estimate may be, as factors."""
DOUBTFUL: Final = 0.5
"""The spread of an estimate that a bound decided: its confidence is low."""
DOUBT: Final = "unlike every model that ran here: bounded by the roofline and by the most similar run"


def bounded(own: CalibratedFit, work: Array, seconds: float) -> float:
    """Return the seconds of a model with this work, or the bound that it is beyond."""
    if len(own.seconds) >= ENOUGH_MODELS:
        return seconds
    roofline = own.level * float(own.data_sheet_times @ work)
    near = _nearest(own, work)
    return min(max(seconds, LOWEST * min(roofline, near)), HIGHEST * max(roofline, near))


def _nearest(own: CalibratedFit, work: Array) -> float:
    """Return the seconds of the run whose work is most alike, in microseconds of the data sheet."""
    micros = 1e6 * own.data_sheet_times
    runs, model = np.log1p(own.runs * micros), np.log1p(work * micros)
    return float(own.seconds[np.argmin(((runs - model) ** 2).sum(1))])
