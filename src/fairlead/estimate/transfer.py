"""What a model did on other devices, carried over to one that ran the same calibration models."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from fairlead.calibration import Features
from fairlead.estimate.amounts import NAMES, amounts
from fairlead.estimate.calibrated import Fitted
from fairlead.estimate.similar import Device, Estimate, Library, Traits, fit, words

_OTHERS: Final = 3
"""So many devices of the kind must have run a model. From one that is little like it, errors of real networks
grew from 8 to 14 and 38 percent; from one like it, they fell from 9 to 7."""
_SHARED: Final = 5
"""So many models must have run on both, to tell how the two compare."""


def transferred(digest: str, own: Fitted, known: Sequence[Fitted]) -> Estimate | None:
    """Return what a model takes on a calibrated device by what others took; None if that says little."""
    others = [each for each in known if _tells(each, digest, own)]
    if len(others) < _OTHERS:
        return None
    models = {name: trial.features for each in (own, *others) for name, trial in each.trials.items()}
    traits = {name: _traits(model) for name, model in models.items()}
    library = Library.of(
        [_device(each) for each in others],
        list(traits.values()),
        np.array([[_log(each, name) for name in traits] for each in others]),
    )
    runs = [
        (traits[name], trial.measured.seconds)
        for name, trial in own.trials.items()
        if trial.measured is not None
    ]
    [[found]] = fit(_device(own), runs, library).predict([traits[digest]])
    return found


def _tells(other: Fitted, digest: str, own: Fitted) -> bool:
    return (
        other is not own
        and other.target.kind == own.target.kind
        and digest in other.trials
        and len(other.trials.keys() & own.trials.keys()) >= _SHARED
    )


def _log(each: Fitted, name: str) -> float:
    trial = each.trials.get(name)
    return float("nan") if trial is None or trial.measured is None else float(np.log(trial.measured.seconds))


def _traits(model: Features) -> Traits:
    view = dict(zip(NAMES[1:], amounts(model).time.tolist()[1:], strict=True))
    return Traits(model.digest, views=(view,))


def _device(each: Fitted) -> Device:
    setup = each.setup
    aspects = (words(setup.device), words(setup.runtime), words(setup.precision), words(each.target.family))
    return Device(setup.name, aspects, each.target.kind, each.rate)
