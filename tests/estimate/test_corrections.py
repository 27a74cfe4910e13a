"""What calibrated devices say of others."""

import numpy as np

from fairlead.estimate.calibrated import CalibratedFit, fit
from fairlead.estimate.corrections import Corrections, corrections
from fairlead.estimate.target import target
from tests.catalogs import shipped
from tests.estimate.worlds import SPEEDS, calibration, setup


def fitted(device: str, slower: float = 1.0) -> CalibratedFit:
    found = fit(calibration(setup(device), SPEEDS * slower), shipped())
    assert found is not None
    return found


def correct(device: str, *others: CalibratedFit, precision: str = "fp32") -> Corrections:
    one = target(device, shipped())
    found = corrections([one], [precision], np.array([one.rates[precision]]), others)
    assert found is not None
    return found


T4 = fitted("t4")


def level(found: Corrections) -> float:
    return float(np.exp(np.mean(np.log(found.factors))))


def test_nobody_says_nothing() -> None:
    one = target("t4", shipped())
    assert corrections([one], ["fp32"], np.array([1e12]), ()) is None


def test_the_nearer_the_device_the_more_it_is_believed() -> None:
    kin, cousin, other = correct("rtx-2080-ti", T4), correct("rtx-3090", T4), correct("mi300x", T4)
    assert kin.trust[0] > cousin.trust[0] > other.trust[0]


def test_a_device_of_another_kind_says_nothing() -> None:
    found = correct("coral-usb", T4, precision="int8")
    assert found.trust[0] == 0
    assert found.factors.tolist() == [[1.0] * len(SPEEDS)]


def test_a_slow_device_makes_its_kin_slower() -> None:
    usual, slow = correct("rtx-2080-ti", fitted("t4")), correct("rtx-2080-ti", fitted("t4", 4))
    assert level(slow) > 1.5 * level(usual)


def test_another_precision_counts_less() -> None:
    assert correct("t4", T4).trust[0] > correct("t4", T4, precision="fp16").trust[0]


def test_no_correction_is_boundless() -> None:
    assert correct("t4", fitted("t4", 1e6)).factors.max() <= 8
    assert correct("t4", fitted("t4", 1e-4)).factors.min() >= 1 / 8
