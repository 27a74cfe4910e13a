"""What a multiply-add and a byte cost a device: by its data sheet, or by a calibration of inference on it."""

from dataclasses import dataclass
from math import exp, log, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fairlead.estimate.amounts import NAMES
from fairlead.estimate.calibrated import CalibratedFit
from fairlead.estimate.target import Target
from fairlead.training.rates import TrainingRates
from fairlead.training.speeds import TrainingSpeed, usual_bandwidth

Array = NDArray[np.float64]

_CPU_SHARE: Final = 0.62
"""The share of a processor's peak that inference reaches: convolutions 0.65, products 0.6."""
_GPU_RATIO: Final = {"fp32": 1.32, "fp16": 1.01}
"""How much longer than by the data sheet products take in calibrations of the H200 of the table."""
_DAMPED: Final = 0.5
"""A GPU's calibration counts for half: its small models start kernels rather than compute."""
_MOST: Final = 3.0
"""No calibration of a GPU changes a cost by more."""
_PLACE: Final = {name: place for place, name in enumerate(NAMES)}


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """Seconds of a multiply-add in convolutions and in products, and of a byte moved."""

    conv: float
    product: float
    byte: float


def unit_costs(target: Target, rates: TrainingRates, own: CalibratedFit | None) -> UnitCosts:
    """Return the costs of a device; `own` is its calibration."""
    if own is not None and target.kind == "cpu":
        return _by_inference(own)
    byte = 1 / (target.bandwidth or usual_bandwidth(target.kind, target.rates))
    share = _CPU_SHARE if target.kind == "cpu" else 1.0
    level = 1.0 if own is None else _gpu_level(own)
    return UnitCosts(level * 2 / rates.conv / share, level * 2 / rates.product / share, level * byte)


def step_times(speed: TrainingSpeed, costs: UnitCosts, *, half: bool) -> Array:
    """Return the seconds of each amount, in the order of `estimate.amounts.NAMES`."""
    return np.array(
        [
            speed.call_us * 1e-6,
            costs.conv / (speed.conv_half if half else speed.conv),
            costs.byte / speed.bytes,
            costs.byte / speed.weights,
            costs.byte / speed.depthwise,
            costs.product / speed.product,
            costs.byte / speed.weights,
            costs.byte / speed.light,
            costs.byte / speed.smooth,
            speed.kernel_conv_us * 1e-6,
            speed.kernel_us * 1e-6,
        ]
    )


def _by_inference(own: CalibratedFit) -> UnitCosts:
    """Return the mean costs of a processor: training uses other kernels, so the kinds are not told apart."""
    cost = {name: float(own.times[place]) for name, place in _PLACE.items()}
    mac = sqrt(cost["macs.conv"] * cost["macs.product"])
    return UnitCosts(mac, mac, sqrt(cost["bytes.conv"] * cost["bytes.light"]))


def _gpu_level(own: CalibratedFit) -> float:
    """Return how much slower a GPU is than those like it, by the products of its calibration."""
    place = _PLACE["macs.product"]
    ratio = max(float(own.times[place]), 1e-300) / float(own.data_sheet_times[place])
    off = log(ratio / _GPU_RATIO["fp32" if own.setup.precision == "fp32" else "fp16"])
    return exp(_DAMPED * min(log(_MOST), max(-log(_MOST), off)))
