"""The predictor fits a device from a few runs and from the other devices."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.estimate.similar import (
    DeviceTraits,
    MeasurementLibrary,
    ModelTraits,
    fit,
    fit_columns,
    join,
)
from tests.estimate.similar.fleet import error, fleet, without

LIBRARY = fleet()
RUNS, REST = np.arange(10), np.arange(10, 40)


def test_ten_runs_and_other_devices_are_enough() -> None:
    errors = []
    for device in range(12):
        others, measured = without(LIBRARY, device)
        predicted = fit_columns(LIBRARY.devices[device], RUNS, measured[RUNS], others).at(REST)[0][0]
        errors.append(error(predicted, measured[REST]))
    assert np.mean(errors) < 6


def test_a_model_without_runs_is_predicted_by_its_work() -> None:
    others, measured = without(LIBRARY, 3)
    rows = others.rows[:-1].copy()
    rows[:, REST] = np.nan
    predictor = fit_columns(
        LIBRARY.devices[3], RUNS, measured[RUNS], others.with_devices(others.devices, rows)
    )
    assert error(predictor.at(REST)[0][0], measured[REST]) < 35


def test_without_other_devices_the_work_predicts_the_time() -> None:
    empty = LIBRARY.with_devices([], LIBRARY.rows[:0])
    measured = LIBRARY.rows[3]
    predictor = fit_columns(LIBRARY.devices[3], RUNS, measured[RUNS], empty)
    assert error(predictor.at(REST)[0][0], measured[REST]) < 35


def test_more_runs_are_better_than_few() -> None:
    few: list[float] = []
    many: list[float] = []
    for device in range(12):
        others, measured = without(LIBRARY, device)
        for size, errors in ((2, few), (20, many)):
            runs = np.arange(size)
            predicted = fit_columns(LIBRARY.devices[device], runs, measured[runs], others).at(REST)[0][0]
            errors.append(error(predicted[10:], measured[REST[10:]]))
    assert np.mean(many) < np.mean(few)


def test_an_outlier_among_the_runs_does_not_ruin_the_fit() -> None:
    others, measured = without(LIBRARY, 5)
    spoilt = measured[RUNS].copy()
    spoilt[4] += np.log(20)
    predicted = fit_columns(LIBRARY.devices[5], RUNS, spoilt, others).at(REST)[0][0]
    assert error(predicted, measured[REST]) < 25


def test_nine_of_ten_stay_below_p90() -> None:
    below = []
    for device in range(12):
        others, measured = without(LIBRARY, device)
        logs, spreads = fit_columns(LIBRARY.devices[device], RUNS, measured[RUNS], others).at(REST)
        below.append(np.mean(measured[REST] <= logs[0] + 1.2816 * spreads[0]))
    assert np.mean(below) >= 0.85


def test_estimates_are_seconds_with_a_p90_and_a_confidence() -> None:
    others, measured = without(LIBRARY, 0)
    runs = [(others.models[index], float(np.exp(measured[index]))) for index in RUNS]
    [[known, new]] = fit(LIBRARY.devices[0], runs, others).predict(
        [others.models[30], ModelTraits("unknown", frozenset({"net"}), ({"macs": 1e9, "params": 1e7},))]
    )
    assert known.mean == pytest.approx(float(np.exp(measured[30])), rel=0.2)
    assert known.mean < known.p90 < 2 * known.mean
    assert 0 < new.mean < new.p90
    assert {known.confidence, new.confidence} <= {"high", "medium", "low"}


def test_runs_of_models_that_the_library_lacks_are_used() -> None:
    own = [ModelTraits(f"own{index}", views=({"macs": 1e9 * (index + 1)},)) for index in range(6)]
    predictor = fit(
        DeviceTraits("x"), [(model, 0.01 * (index + 1)) for index, model in enumerate(own)], LIBRARY
    )
    [[estimate]] = predictor.predict([ModelTraits("next", views=({"macs": 8e9},))])
    assert estimate.mean == pytest.approx(0.08, rel=0.3)


def test_a_device_without_runs_is_predicted_by_words_and_data_sheet() -> None:
    devices = [
        DeviceTraits(f"chip {n}", (frozenset({"chip", str(n)}),), "npu", 1e12 * 2**n) for n in range(6)
    ]
    models = LIBRARY.models[:5]
    values = np.array([np.log(0.1 / 2**n) + np.arange(5.0) for n in range(6)])
    known = MeasurementLibrary.of([devices[n] for n in (0, 1, 3, 5)], models, values[[0, 1, 3, 5]])
    fast, slow = (fit(devices[n], [], known).predict(models) for n in (4, 2))
    for [quick], [long] in zip(zip(*fast, strict=True), zip(*slow, strict=True), strict=True):
        assert quick.mean < long.mean
    [[new]] = fit(devices[4], [], known).predict([ModelTraits("new", views=({"macs": 1e9, "params": 1e7},))])
    assert np.isfinite(new.mean)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 5), st.integers(1, 5), st.integers(0, 5))
def test_missing_values_never_break_a_prediction(seed: int, devices: int, count: int, runs: int) -> None:
    random = np.random.default_rng(seed)
    amounts = [
        {name: float(random.lognormal(0, 5)) for name in "ab" if random.random() < 0.6} for _ in range(count)
    ]
    models = [ModelTraits(f"m{index}", views=(view,)) for index, view in enumerate(amounts)]
    values = random.normal(0, 5, (devices, count))
    values[random.random(values.shape) < 0.5] = np.nan
    library = MeasurementLibrary.of([DeviceTraits(f"d{index}") for index in range(devices)], models, values)
    observed = random.permutation(count)[:runs]
    predictor = fit_columns(DeviceTraits("new"), observed, random.normal(0, 5, len(observed)), library)
    logs, spreads = predictor.at(np.arange(count))
    assert np.isfinite(logs).all()
    assert (spreads > 0).all()


def test_a_thousand_devices_are_predicted_in_one_pass_as_each_alone() -> None:
    predictors = []
    for device in range(12):
        runs = np.arange(device % 3, 10 + device % 3)
        predictors.append(fit_columns(DeviceTraits("x"), runs, LIBRARY.rows[device, runs] + 0.1, LIBRARY))
    models = [LIBRARY.models[39], ModelTraits("new", views=({"macs": 1e9, "params": 1e7},))]
    joined = join(predictors * 84)
    alone = [predictor.predict(models)[0] for predictor in predictors]
    for one, row in zip(alone * 84, joined.predict(models), strict=True):
        assert [estimate.mean for estimate in row] == pytest.approx([estimate.mean for estimate in one])
    joined.predict(models[:1])
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        joined.predict(models[:1])
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.1  # on a busy machine; `make bench-predict` holds it to 20 ms


def test_predictors_of_different_libraries_are_not_joined() -> None:
    one = fit(DeviceTraits("x"), [(LIBRARY.models[0], 1.0)], LIBRARY)
    other = fit(DeviceTraits("x"), [(LIBRARY.models[0], 1.0)], fleet(seed=1))
    with pytest.raises(ValueError, match="different libraries"):
        join([one, other])
