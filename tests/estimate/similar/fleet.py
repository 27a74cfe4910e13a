"""A synthetic fleet: devices that differ in the speed of compute and of memory."""

import numpy as np

from fairlead.estimate.similar import DeviceTraits, MeasurementLibrary, ModelTraits, words
from fairlead.estimate.similar.traits import Array


def fleet(devices: int = 12, models: int = 40, seed: int = 0, noise: float = 0.01) -> MeasurementLibrary:
    """Return a library of all measurements of the fleet."""
    random = np.random.default_rng(seed)
    macs, params = random.lognormal(20, 1, models), random.lognormal(16, 1, models)
    quirks = random.normal(0, 0.3, models)
    rows = []
    for _ in range(devices):
        compute, memory = random.lognormal(-25, 0.8), random.lognormal(-18, 0.8)
        seconds = 1e-3 + macs * compute * np.exp(quirks) + params * memory
        rows.append(np.log(seconds) + random.normal(0, noise, models))
    traits = [
        ModelTraits(
            f"net{index}", frozenset({"net", str(index)}), ({"macs": macs[index], "params": params[index]},)
        )
        for index in range(models)
    ]
    names = [f"board {index}" for index in range(devices)]
    return MeasurementLibrary.of(
        [DeviceTraits(name, (words(name), words("engine"))) for name in names],
        traits,
        np.array(rows).reshape(devices, models),
    )


def without(library: MeasurementLibrary, device: int) -> tuple[MeasurementLibrary, Array]:
    """Return the library of the other devices, and the values of the one left out."""
    others = [index for index in range(len(library.devices)) if index != device]
    kept = library.with_devices([library.devices[index] for index in others], library.rows[others])
    return kept, library.rows[device]


def error(predicted: Array, measured: Array) -> float:
    """Return the mean error in percent."""
    return float(100 * np.abs(np.expm1(predicted - measured)).mean())
