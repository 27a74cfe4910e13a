"""What a model did on other devices, carried over to one that ran the same calibration models."""

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
"""So many devices of the kind must have run a model. From one that is little like it, errors of real networks
grew from 8 to 14 and 38 percent; from one like it, they fell from 9 to 7."""
_FEWEST_SHARED_MODELS: Final = 5
"""So many models must have run on both, to tell how the two compare."""


def transfer(
    model: Features, own: CalibratedFit, ran: Sequence[tuple[CalibratedFit, Seconds]]
) -> SimilarityEstimate | None:
    """Return what a model takes on a calibrated device by what others took; None if that says little."""
    others = [(each, seconds) for each, seconds in ran if _comparable(each, own)]
    if len(others) < _FEWEST_DEVICES:
        return None
    setups = (own, *(each for each, _ in others))
    models = {name: trial.features for each in setups for name, trial in each.trials.items()}
    traits = {name: _traits(known) for name, known in (models | {model.digest: model}).items()}
    rows = [_times(each) | {model.digest: seconds} for each, seconds in others]
    library = MeasurementLibrary.of(
        [_device(each) for each, _ in others],
        list(traits.values()),
        np.log([[row.get(name, np.nan) for name in traits] for row in rows]),
    )
    runs = [(traits[name], seconds) for name, seconds in _times(own).items()]
    [[found]] = fit(_device(own), runs, library).predict([traits[model.digest]])
    return found


def _comparable(other: CalibratedFit, own: CalibratedFit) -> bool:
    return (
        other is not own
        and other.target.kind == own.target.kind
        and len(other.trials.keys() & own.trials.keys()) >= _FEWEST_SHARED_MODELS
    )


def _times(each: CalibratedFit) -> dict[str, Seconds]:
    """Return what the models of a calibration took."""
    found = {name: trial.measured for name, trial in each.trials.items()}
    return {name: measured.seconds for name, measured in found.items() if measured is not None}


def _traits(model: Features) -> ModelTraits:
    view = dict(zip(NAMES[1:], amounts(model).time.tolist()[1:], strict=True))
    return ModelTraits(model.digest, views=(view,))


def _device(each: CalibratedFit) -> DeviceTraits:
    setup = each.setup
    aspects = (words(setup.device), words(setup.runtime), words(setup.precision), words(each.target.family))
    return DeviceTraits(setup.name, aspects, each.target.kind, each.rate)
