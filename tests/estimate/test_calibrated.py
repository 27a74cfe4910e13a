"""What runs say of a device."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.calibration import Calibration, Trial, features
from fairlead.estimate.amounts import amounts
from fairlead.estimate.calibrated import CalibratedFit, fit
from fairlead.units import Bytes
from fairlead.zoo import PACK
from tests.catalogs import shipped
from tests.estimate.networks import network
from tests.estimate.worlds import EIGHT, JOULES, MEMORY, SPEEDS, calibration, setup, truth


def fitted(found: Calibration) -> CalibratedFit:
    result = fit(found, shipped())
    assert result is not None
    return result


def errors(found: CalibratedFit) -> list[float]:
    said = [float(amounts(features(network(name))).time @ found.times) for name in EIGHT]
    return [abs(seconds / truth(name) - 1) for seconds, name in zip(said, EIGHT, strict=True)]


def test_the_pack_tells_what_other_networks_take() -> None:
    found = fitted(calibration(setup()))
    assert max(errors(found)) < 0.1
    assert found.spread < 0.2


def test_noise_of_some_percent_does_little_harm() -> None:
    found = fitted(calibration(setup(), noise=0.03))
    assert float(np.mean(errors(found))) < 0.12


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_a_few_models_are_better_than_none_and_never_nonsense(count: int) -> None:
    found = fitted(calibration(setup(), names=tuple(PACK)[:count]))
    assert (found.times >= 0).all()
    assert max(errors(found)) < 2


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(0.1, 10), min_size=len(SPEEDS), max_size=len(SPEEDS)))
def test_any_device_can_be_told_from_the_pack(factors: list[float]) -> None:
    speeds = SPEEDS * np.array(factors)
    found = fitted(calibration(setup(), speeds))
    said = [float(amounts(features(network(name))).time @ found.times) for name in EIGHT]
    off = [abs(seconds / truth(name, speeds) - 1) for seconds, name in zip(said, EIGHT, strict=True)]
    assert float(np.mean(off)) < 0.3


def test_a_model_that_stands_there_thirty_times_is_one_model() -> None:
    once = calibration(setup(), names=tuple(PACK)[:1])
    many = replace(once, trials=once.trials * 30)
    assert fitted(many).spread == fitted(once).spread > 0.3


def test_memory_of_the_process_is_told_too() -> None:
    found = fitted(calibration(setup()))
    for name in EIGHT:
        work = amounts(features(network(name))).memory
        assert work @ found.memory == pytest.approx(work @ MEMORY, rel=0.05)


def test_joules_where_watts_were_measured() -> None:
    found = fitted(calibration(setup()))
    assert found.power is not None
    for name in EIGHT:
        work = amounts(features(network(name))).time
        true = float(work @ JOULES) / truth(name)
        assert found.power.watts(work, truth(name)) == pytest.approx(true, rel=0.1)


def test_power_is_within_what_was_seen() -> None:
    found = fitted(calibration(setup(), names=tuple(PACK)[:3]))
    assert found.power is not None
    work = amounts(features(network("resnet50"))).time
    assert found.power.watts(work, 1e-9) == found.power.most
    assert found.power.watts(work, 1e9) == found.power.least


def test_few_models_leave_doubt() -> None:
    assert fitted(calibration(setup(), names=tuple(PACK)[:3])).spread > 0.25


def test_without_watts_nothing_is_said_of_power() -> None:
    found = calibration(setup())
    dark = [
        replace(each, measured=replace(each.measured, watts=None)) for each in found.done if each.measured
    ]
    assert fitted(replace(found, trials=tuple(dark))).power is None


def test_without_memory_the_usual_is_said() -> None:
    found = calibration(setup())
    blind = [
        replace(each, measured=replace(each.measured, peak_bytes=Bytes(0)))
        for each in found.done
        if each.measured
    ]
    assert fitted(replace(found, trials=tuple(blind))).memory[0] > 100e6


def test_a_calibration_that_says_nothing_is_none() -> None:
    failed = Trial("plain", features(network("plain")), None, "it crashed")
    assert fit(replace(calibration(setup()), trials=(failed,)), shipped()) is None
    assert fit(calibration(setup("nobody-knows")), shipped()) is None


def test_a_cpu_without_a_peak_in_the_catalog_can_be_calibrated() -> None:
    found = fitted(calibration(setup("cpu-x86-64-avx2", power=None)))
    assert max(errors(found)) < 0.3
