"""Times of a model on other devices, transferred to a calibrated one."""

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
"""Takes twice as long on every device as its amounts predict."""


def calibrated_with_odd_model(device: str, slower: float, names: tuple[str, ...]) -> CalibratedFit:
    speeds = SPEEDS * slower
    measured = calibration(setup(device), speeds, names)
    odd = trial(features(network(ODD)), ODD, speeds * 2)
    result = fit(
        Calibration(measured.setup, measured.host, measured.made, (*measured.trials, odd)), shipped()
    )
    assert result is not None
    return result


def here() -> CalibratedFit:
    result = fit(calibration(setup("t4"), SPEEDS * 1.3), shipped())
    assert result is not None
    return result


def times_of(known: Sequence[CalibratedFit], name: str = ODD) -> list[tuple[CalibratedFit, Seconds]]:
    """Return the measured times of a network on these setups."""
    return Knowledge(tuple(known)).measured_times(network(name).digest)


WORK = amounts(features(network(ODD))).time
OTHERS = tuple(
    calibrated_with_odd_model(device, 1 + index / 2, tuple(PACK)) for index, device in enumerate(GPUS)
)


def test_a_models_deviation_is_transferred() -> None:
    own = here()
    result = transfer(features(network(ODD)), own, times_of(OTHERS))
    true = 2 * 1.3 * float(np.dot(SPEEDS, WORK))
    assert result is not None
    assert result.mean == pytest.approx(true, rel=0.15)
    assert float(WORK @ own.times) < true * 0.7


def test_two_devices_are_not_enough() -> None:
    assert transfer(features(network(ODD)), here(), times_of(OTHERS[:2])) is None


def test_devices_that_share_few_models_do_not_count() -> None:
    strangers = [calibrated_with_odd_model(device, 1.0, tuple(PACK)[:4]) for device in GPUS]
    assert transfer(features(network(ODD)), here(), times_of(strangers)) is None


def test_a_model_without_runs_is_not_transferred() -> None:
    assert transfer(features(network("resnet50")), here(), times_of(OTHERS, "resnet50")) is None
