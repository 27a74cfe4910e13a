"""Synthetic devices with known true speeds, and calibrations of them."""

from collections.abc import Iterable, Mapping

import numpy as np

from fairlead.calibration import Calibration, Features, MeasuredRun, Setup, Trial, features
from fairlead.estimate.amounts import NAMES, Array, amounts
from fairlead.units import Bytes, Seconds, Watts
from fairlead.zoo import KNOWN, PACK
from tests.estimate.networks import network

TRUE: Mapping[str, float] = {
    "call": 2e-5,
    "macs.conv": 2.5e-13,
    "bytes.conv": 3e-12,
    "weights.conv": 6e-12,
    "bytes.depthwise": 8e-12,
    "macs.product": 3e-13,
    "weights.product": 6e-12,
    "bytes.light": 2e-12,
    "bytes.smooth": 4e-12,
    "kernels.conv": 7e-6,
    "kernels.other": 3e-6,
}
"""Seconds of each amount on a fictitious GPU."""
SPEEDS: Array = np.array([TRUE[name] for name in NAMES])
MEMORY: Array = np.array([500e6, 1.2, 2.0, 1.1, 1.5])
JOULES: Array = SPEEDS * np.linspace(40, 90, len(NAMES))


def setup(device: str = "t4", precision: str = "fp32", power: float | None = 70.0) -> Setup:
    """Return a setup of a GPU."""
    return Setup(device, "onnxruntime-cuda", "1.2", precision, power=None if power is None else Watts(power))


def trial(model: Features, name: str, speeds: Array, noise: float = 0.0, *, watts: bool = True) -> Trial:
    """Run a model on a device of these speeds."""
    work = amounts(model)
    off = np.random.default_rng(len(name) + model.groups).normal(0, noise) if noise else 0.0
    seconds = float(work.time @ speeds * np.exp(off))
    power = Watts(float(work.time @ JOULES) / float(work.time @ SPEEDS)) if watts else None
    peak = Bytes(int(work.memory @ MEMORY))
    took = Seconds(seconds)
    return Trial(name, model, MeasuredRun(took, Seconds(seconds * 1.05), 9, took, 0.0, peak, None, power))


def calibration(
    where: Setup, speeds: Array = SPEEDS, names: Iterable[str] = tuple(PACK), noise: float = 0.0
) -> Calibration:
    """Calibrate a device of these speeds with models of the zoo."""
    made = "2026-11-16T04:00:00+00:00"
    runs = tuple(trial(features(network(name)), name, speeds, noise) for name in names)
    return Calibration(where, "a host", made, runs)


def truth(name: str, speeds: Array = SPEEDS) -> float:
    """Return the true seconds of a network of the zoo."""
    return float(amounts(features(network(name))).time @ speeds)


EIGHT = tuple(KNOWN)
