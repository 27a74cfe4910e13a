"""What a model did elsewhere says what it does here."""

from collections.abc import Sequence

import numpy as np
import pytest

from fairlead.calibration import Calibration, features
from fairlead.estimate.amounts import amounts
from fairlead.estimate.calibrated import CalibratedFit, fit
from fairlead.estimate.knowledge import Knowledge
from fairlead.estimate.transfer import transfer
from fairlead.units import Seconds
from fairlead.zoo import PACK
from tests.catalogs import shipped
from tests.estimate.networks import network
from tests.estimate.worlds import SPEEDS, calibration, setup, trial

GPUS = ("l4", "a100", "a2", "rtx-3090")
ODD = "efficientnet_b0"
"""Takes twice as long, everywhere, as its amounts say."""


def calibrated_with_odd_model(device: str, slower: float, names: tuple[str, ...]) -> CalibratedFit:
    speeds = SPEEDS * slower
    made = calibration(setup(device), speeds, names)
    odd = trial(features(network(ODD)), ODD, speeds * 2)
    found = fit(Calibration(made.setup, made.host, made.made, (*made.trials, odd)), shipped())
    assert found is not None
    return found


def here() -> CalibratedFit:
    found = fit(calibration(setup("t4"), SPEEDS * 1.3), shipped())
    assert found is not None
    return found


def times_of(known: Sequence[CalibratedFit], name: str = ODD) -> list[tuple[CalibratedFit, Seconds]]:
    """Return what these setups know of a network."""
    return Knowledge(tuple(known)).measured_times(network(name).digest)


WORK = amounts(features(network(ODD))).time
OTHERS = tuple(
    calibrated_with_odd_model(device, 1 + index / 2, tuple(PACK)) for index, device in enumerate(GPUS)
)


def test_what_is_odd_about_a_model_is_carried_over() -> None:
    own = here()
    found = transfer(features(network(ODD)), own, times_of(OTHERS))
    true = 2 * 1.3 * float(np.dot(SPEEDS, WORK))
    assert found is not None
    assert found.mean == pytest.approx(true, rel=0.15)
    assert float(WORK @ own.times) < true * 0.7


def test_two_devices_are_not_enough() -> None:
    assert transfer(features(network(ODD)), here(), times_of(OTHERS[:2])) is None


def test_devices_that_share_few_models_say_nothing() -> None:
    strangers = [calibrated_with_odd_model(device, 1.0, tuple(PACK)[:4]) for device in GPUS]
    assert transfer(features(network(ODD)), here(), times_of(strangers)) is None


def test_a_model_that_nobody_ran_is_not_transferred() -> None:
    assert transfer(features(network("resnet50")), here(), times_of(OTHERS, "resnet50")) is None
