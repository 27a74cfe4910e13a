"""Models that no device has run: by their work, within bounds, and with a doubt that fits."""

import numpy as np
import pytest

from fairlead.estimate.similar import DeviceTraits, MeasurementLibrary, ModelTraits, fit, fit_columns
from fairlead.estimate.similar.unseen import fit_unseen
from tests.estimate.similar.fleet import error, fleet, without

LIBRARY = fleet()
REST = np.arange(20, 40)


NEAR_AND_FAR = (("near", 5e8), ("far", 5e12))


def alone(device: int, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Predict models of which nothing is known but their work, from runs of others; with their spreads."""
    empty = LIBRARY.with_devices([], LIBRARY.rows[:0])
    known = (device + np.arange(runs)) % 20
    logs, spreads = fit_columns(DeviceTraits("x"), known, LIBRARY.rows[device, known], empty).at(REST)
    return logs[0], spreads[0]


@pytest.mark.parametrize(("runs", "most"), [(1, 100), (3, 80), (10, 40)])
def test_few_runs_do_not_run_away(runs: int, most: float) -> None:
    errors = [error(alone(device, runs)[0], LIBRARY.rows[device, REST]) for device in range(12)]
    assert np.mean(errors) < most
    assert max(errors) < 300


@pytest.mark.parametrize("runs", [1, 2, 3, 5, 10, 20])
def test_nine_of_ten_stay_below_p90_at_every_number_of_runs(runs: int) -> None:
    below = []
    for device in range(12):
        logs, spreads = alone(device, runs)
        below.append(np.mean(LIBRARY.rows[device, REST] <= logs + 1.2816 * spreads))
    assert np.mean(below) >= 0.8


def test_doubt_shrinks_with_runs_and_grows_with_distance() -> None:
    assert np.median(alone(0, 2)[1]) > np.median(alone(0, 20)[1])
    runs = [(model, 0.01) for model in LIBRARY.models[:3]]
    near, far = (ModelTraits(name, views=({"macs": macs, "params": 1e7},)) for name, macs in NEAR_AND_FAR)
    [[one, two]] = fit(DeviceTraits("x"), runs, LIBRARY.with_devices([], LIBRARY.rows[:0])).predict(
        [near, far]
    )
    assert two.p90 / two.mean > one.p90 / one.mean


def test_an_estimate_beyond_both_bounds_is_low_and_says_why() -> None:
    """Twice the work took ten times the time: a power law that is not believed far away."""
    models = [ModelTraits(f"m{index}", views=({"macs": 1e9 * 2**index},)) for index in range(6)]
    runs = [(model, 1e-3 * 10**index) for index, model in enumerate(models)]
    library = MeasurementLibrary.of([], models, np.zeros((0, 6)))
    tiny = ModelTraits("tiny", views=({"macs": 1e4},))
    [[estimate]] = fit(DeviceTraits("x"), runs, library).predict([tiny])
    assert estimate.confidence == "low"
    assert 0 < estimate.mean < 1e-3
    if estimate.reason:
        assert "bounded" in estimate.reason


def test_one_run_of_a_known_model_carries_over_to_the_others() -> None:
    """One model in common shows the level of the new device; the rest is as on similar devices."""
    errors = []
    for device in range(12):
        others, measured = without(LIBRARY, device)
        predicted = fit_columns(LIBRARY.devices[device], np.arange(1), measured[:1], others).at(REST)[0][0]
        errors.append(error(predicted, measured[REST]))
    assert np.mean(errors) < 60


def test_work_in_other_amounts_is_left_to_another_fit() -> None:
    models = [ModelTraits(name, views=({"skip_connect": 2.0},)) for name in "ab"]
    library = MeasurementLibrary.of([], models, np.zeros((0, 2)))
    assert fit_unseen(np.arange(2), np.zeros(2), library.trait_matrix, library.vocabulary) is None
    assert fit_unseen(np.arange(0), np.zeros(0), LIBRARY.trait_matrix, LIBRARY.vocabulary) is None


def test_without_amounts_the_runs_alone_predict() -> None:
    models = [ModelTraits(f"net {index}", frozenset({"net", str(index)})) for index in range(5)]
    library = MeasurementLibrary.of([], models, np.zeros((0, 5)))
    runs = [(model, 0.01 * (index + 1)) for index, model in enumerate(models[:4])]
    [[estimate]] = fit(DeviceTraits("x"), runs, library).predict([models[4]])
    assert 0.005 < estimate.mean < 0.05 < estimate.p90 * 2
