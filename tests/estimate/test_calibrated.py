"""The fit of a calibrated device."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.calibration import Calibration, Trial, features
from fairlead.estimate.amounts import amounts
from fairlead.estimate.calibrated import CalibratedFit, fit
from fairlead.estimate.knowledge import Knowledge
from fairlead.estimate.predict import estimate
from fairlead.estimate.query import Query
from fairlead.estimate.target import target
from fairlead.units import Bytes
from fairlead.zoo import PACK
from tests.catalogs import shipped
from tests.estimate.networks import network
from tests.estimate.worlds import EIGHT, JOULES, MEMORY, SPEEDS, calibration, setup, truth


def fitted(measured: Calibration) -> CalibratedFit:
    result = fit(measured, shipped())
    assert result is not None
    return result


def errors(result: CalibratedFit) -> list[float]:
    predicted = [float(amounts(features(network(name))).time @ result.times) for name in EIGHT]
    return [abs(seconds / truth(name) - 1) for seconds, name in zip(predicted, EIGHT, strict=True)]


def test_the_pack_predicts_other_networks() -> None:
    result = fitted(calibration(setup()))
    assert max(errors(result)) < 0.1
    assert result.spread < 0.2


def test_noise_of_some_percent_does_little_harm() -> None:
    result = fitted(calibration(setup(), noise=0.03))
    assert float(np.mean(errors(result))) < 0.12


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_a_few_models_are_better_than_none_and_never_nonsense(count: int) -> None:
    result = fitted(calibration(setup(), names=tuple(PACK)[:count]))
    assert (result.times >= 0).all()
    assert max(errors(result)) < 2


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(0.1, 10), min_size=len(SPEEDS), max_size=len(SPEEDS)))
def test_any_device_can_be_fitted_from_the_pack(factors: list[float]) -> None:
    speeds = SPEEDS * np.array(factors)
    result = fitted(calibration(setup(), speeds))
    predicted = [float(amounts(features(network(name))).time @ result.times) for name in EIGHT]
    off = [abs(seconds / truth(name, speeds) - 1) for seconds, name in zip(predicted, EIGHT, strict=True)]
    assert float(np.mean(off)) < 0.3


def test_a_model_listed_thirty_times_counts_once() -> None:
    once = calibration(setup(), names=tuple(PACK)[:1])
    many = replace(once, trials=once.trials * 30)
    assert fitted(many).spread == fitted(once).spread > 0.3


def test_the_memory_of_the_process_is_fitted() -> None:
    result = fitted(calibration(setup()))
    for name in EIGHT:
        work = amounts(features(network(name))).memory
        assert work @ result.memory == pytest.approx(work @ MEMORY, rel=0.05)


def test_joules_are_fitted_where_watts_were_measured() -> None:
    result = fitted(calibration(setup()))
    assert result.power is not None
    for name in EIGHT:
        work = amounts(features(network(name))).time
        true = float(work @ JOULES) / truth(name)
        assert result.power.watts(work, truth(name)) == pytest.approx(true, rel=0.1)


def test_power_stays_within_the_measured_range() -> None:
    result = fitted(calibration(setup(), names=tuple(PACK)[:3]))
    assert result.power is not None
    work = amounts(features(network("resnet50"))).time
    assert result.power.watts(work, 1e-9) == result.power.most
    assert result.power.watts(work, 1e9) == result.power.least


def test_few_models_give_a_wide_spread() -> None:
    assert fitted(calibration(setup(), names=tuple(PACK)[:3])).spread > 0.25


def test_without_watts_there_is_no_power() -> None:
    measured = calibration(setup())
    trials = [
        replace(each, measured=replace(each.measured, watts=None)) for each in measured.done if each.measured
    ]
    assert fitted(replace(measured, trials=tuple(trials))).power is None


def test_without_measured_memory_the_runtime_figures_count() -> None:
    measured = calibration(setup())
    trials = [
        replace(each, measured=replace(each.measured, peak_bytes=Bytes(0)))
        for each in measured.done
        if each.measured
    ]
    assert fitted(replace(measured, trials=tuple(trials))).memory[0] > 100e6


def test_a_calibration_without_runs_or_known_device_has_no_fit() -> None:
    failed = Trial("plain", features(network("plain")), None, "it crashed")
    assert fit(replace(calibration(setup()), trials=(failed,)), shipped()) is None
    assert fit(calibration(setup("unknown-device")), shipped()) is None


def test_a_cpu_without_a_peak_in_the_catalog_can_be_calibrated() -> None:
    result = fitted(calibration(setup("cpu-x86-64-avx2", power=None)))
    assert max(errors(result)) < 0.3


def waiting(share: float) -> Calibration:
    """Return a calibration in which every model waited for a CPU for this share of the time."""
    quiet = calibration(setup("t4"))
    runs = (
        replace(trial, measured=replace(trial.measured, waited=share))
        for trial in quiet.done
        if trial.measured
    )
    return replace(quiet, trials=tuple(runs))


@pytest.mark.parametrize(
    ("share", "classes"), [(0.0, {"high"}), (0.64, {"medium"}), (0.81, {"medium", "low"})]
)
def test_a_run_that_waited_for_a_cpu_is_not_of_high_confidence(share: float, classes: set[str]) -> None:
    known = Knowledge.of([waiting(share)], shipped())
    measured, fitted = (
        estimate(Query.of(network(name)), [target("t4", shipped())], known)[0]
        for name in ("plain", "resnet50")
    )
    assert (measured.basis, fitted.basis) == ("measured", "calibrated")
    assert {measured.confidence} <= classes
    assert {fitted.confidence} <= classes
    assert measured.p90 is not None
    assert measured.seconds is not None
    assert measured.p90 >= measured.seconds * math.exp(1.28 * 0.3 * share)


def test_of_two_versions_of_a_runtime_the_one_with_enough_models_counts_and_then_the_newer() -> None:
    old, few = calibration(setup("t4")), calibration(replace(setup("t4"), version="9"), names=("plain",))
    dated = [replace(each, made=made) for each, made in ((old, "2026-01"), (few, "2026-02"))]
    own = Knowledge.of(dated, shipped()).own_fit(target("t4", shipped()), "fp32")
    assert own is not None
    assert own.setup.version == "1.2"
    full = replace(old, setup=few.setup, made="2026-02")
    own = Knowledge.of([full, dated[0]], shipped()).own_fit(target("t4", shipped()), "fp32")
    assert own is not None
    assert own.setup.version == "9"
