"""Corrections of data sheets by similar calibrated devices."""

import numpy as np

from fairlead.estimate.calibrated import CalibratedFit, fit
from fairlead.estimate.corrections import Corrections, corrections
from fairlead.estimate.target import target
from tests.catalogs import shipped
from tests.estimate.worlds import SPEEDS, calibration, setup


def fitted(device: str, slower: float = 1.0) -> CalibratedFit:
    result = fit(calibration(setup(device), SPEEDS * slower), shipped())
    assert result is not None
    return result


def correct(device: str, *others: CalibratedFit, precision: str = "fp32") -> Corrections:
    device_target = target(device, shipped())
    result = corrections([device_target], [precision], np.array([device_target.rates[precision]]), others)
    assert result is not None
    return result


T4 = fitted("t4")


def level(result: Corrections) -> float:
    return float(np.exp(np.mean(np.log(result.factors))))


def test_without_calibrated_devices_there_are_no_corrections() -> None:
    device = target("t4", shipped())
    assert corrections([device], ["fp32"], np.array([1e12]), ()) is None


def test_trust_grows_with_similarity() -> None:
    near, far, other = correct("rtx-2080-ti", T4), correct("rtx-3090", T4), correct("mi300x", T4)
    assert near.trust[0] > far.trust[0] > other.trust[0]


def test_a_device_of_another_kind_does_not_count() -> None:
    result = correct("coral-usb", T4, precision="int8")
    assert result.trust[0] == 0
    assert result.factors.tolist() == [[1.0] * len(SPEEDS)]


def test_a_slow_device_corrects_similar_ones() -> None:
    usual, slow = correct("rtx-2080-ti", fitted("t4")), correct("rtx-2080-ti", fitted("t4", 4))
    assert level(slow) > 1.5 * level(usual)


def test_another_precision_counts_less() -> None:
    assert correct("t4", T4).trust[0] > correct("t4", T4, precision="fp16").trust[0]


def test_corrections_are_bounded() -> None:
    assert correct("t4", fitted("t4", 1e6)).factors.max() <= 8
    assert correct("t4", fitted("t4", 1e-4)).factors.min() >= 1 / 8
