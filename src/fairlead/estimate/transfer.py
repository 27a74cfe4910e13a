"""Transfer a model's time from other devices to a device that ran the same calibration models."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from fairlead.calibration import Features
from fairlead.estimate.amounts import NAMES, amounts
from fairlead.estimate.calibrated import CalibratedFit
from fairlead.estimate.similar import (
    DeviceTraits,
    MeasurementLibrary,
    ModelTraits,
    SimilarityEstimate,
    fit,
    words,
)
from fairlead.units import Seconds

_FEWEST_DEVICES: Final = 3
"""Devices of the kind that must have run a model. From one dissimilar device, errors of real networks grew
from 8 to 14 and 38 percent; from one similar device, they fell from 9 to 7."""
_FEWEST_SHARED_MODELS: Final = 5
"""Models that must have run on both devices, to show how the two compare."""


def transfer(
    model: Features, own: CalibratedFit, measured: Sequence[tuple[CalibratedFit, Seconds]]
) -> SimilarityEstimate | None:
    """Estimate a model on a calibrated device from its times on others; None with too few of them."""
    others = [(fitted, seconds) for fitted, seconds in measured if _comparable(fitted, own)]
    if len(others) < _FEWEST_DEVICES:
        return None
    fits = (own, *(fitted for fitted, _ in others))
    models = {name: trial.features for fitted in fits for name, trial in fitted.trials.items()}
    traits = {name: _traits(known) for name, known in (models | {model.digest: model}).items()}
    rows = [_times(fitted) | {model.digest: seconds} for fitted, seconds in others]
    library = MeasurementLibrary.of(
        [_device(fitted) for fitted, _ in others],
        list(traits.values()),
        np.log([[row.get(name, np.nan) for name in traits] for row in rows]),
    )
    runs = [(traits[name], seconds) for name, seconds in _times(own).items()]
    [[estimate]] = fit(_device(own), runs, library).predict([traits[model.digest]])
    return estimate


def _comparable(other: CalibratedFit, own: CalibratedFit) -> bool:
    """Say whether another device is of the same kind and ran enough of the same models."""
    return (
        other is not own
        and other.target.kind == own.target.kind
        and len(other.trials.keys() & own.trials.keys()) >= _FEWEST_SHARED_MODELS
    )


def _times(fitted: CalibratedFit) -> dict[str, Seconds]:
    """Return the measured times of a calibration, by the digest of the model."""
    runs = {name: trial.measured for name, trial in fitted.trials.items()}
    return {name: run.seconds for name, run in runs.items() if run is not None}


def _traits(model: Features) -> ModelTraits:
    view = dict(zip(NAMES[1:], amounts(model).time.tolist()[1:], strict=True))
    return ModelTraits(model.digest, views=(view,))


def _device(fitted: CalibratedFit) -> DeviceTraits:
    setup = fitted.setup
    aspects = (words(setup.device), words(setup.runtime), words(setup.precision), words(fitted.target.family))
    return DeviceTraits(setup.name, aspects, fitted.target.kind, fitted.rate)
