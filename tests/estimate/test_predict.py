"""Whole predictions: one model, many devices."""

from dataclasses import replace

import pytest

from fairlead.calibration import Latency, ObservedUse, features
from fairlead.errors import SettingsError
from fairlead.estimate.knowledge import Knowledge
from fairlead.estimate.predict import estimate
from fairlead.estimate.query import Query
from fairlead.estimate.target import Target, target, targets
from fairlead.prediction import Estimate
from fairlead.units import Bytes, Seconds
from fairlead.workload import Profile
from tests.catalogs import shipped
from tests.estimate.networks import network
from tests.estimate.worlds import EIGHT, SPEEDS, calibration, setup, trial, truth

NOTHING = Knowledge()
T4 = Knowledge.of([calibration(setup("t4"))], shipped())


def predict(
    profile: Profile,
    device: str | Target,
    known: Knowledge = NOTHING,
    *,
    precision: str | None = None,
    batch: int | None = None,
    slo: float | None = None,
) -> Estimate:
    query = Query.of(profile, precision, batch, None if slo is None else Seconds(slo))
    where = target(device, shipped()) if isinstance(device, str) else device
    [result] = estimate(query, [where], known)
    return result


def seconds(profile: Profile, device: str, known: Knowledge = NOTHING, **asked: object) -> float:
    result = predict(profile, device, known, **asked)  # type: ignore[arg-type]  # a table
    assert result.seconds is not None
    return result.seconds


def test_a_data_sheet_is_of_low_confidence() -> None:
    result = predict(network("resnet50"), "a100")
    assert (result.runs, result.fits, result.confidence, result.basis) == (True, True, "low", "data sheet")
    assert result.p90 is not None
    assert result.seconds is not None
    assert result.p90 > result.seconds
    assert result.joules == pytest.approx(result.seconds * (result.watts or 0))


@pytest.mark.parametrize("name", EIGHT)
def test_a_calibrated_device_has_small_errors(name: str) -> None:
    result = predict(network(name), "t4", T4)
    assert (result.basis, result.runtime) == ("calibrated", "onnxruntime-cuda")
    assert result.confidence in ("high", "medium")
    assert result.seconds == pytest.approx(truth(name), rel=0.1)
    assert result.watts is not None


def test_a_model_measured_on_the_device_has_its_measured_time() -> None:
    result = predict(network("plain"), "t4", T4)
    assert (result.basis, result.confidence, result.seconds) == ("measured", "high", truth("plain"))
    doubled = predict(network("plain"), "t4", T4, batch=2)
    assert doubled.basis == "calibrated"


def test_a_device_like_a_calibrated_one_learns_from_it() -> None:
    slow = Knowledge.of([calibration(setup("t4"), SPEEDS * 10)], shipped())
    alone, corrected = (
        predict(network("resnet50"), "rtx-2080-ti"),
        predict(network("resnet50"), "rtx-2080-ti", slow),
    )
    assert (alone.basis, corrected.basis) == ("data sheet", "similar")
    assert (corrected.seconds or 0) > 2 * (alone.seconds or 0)
    far = predict(network("resnet50"), "coral-usb", slow)
    assert far.basis == "data sheet"


def test_a_cpu_of_the_catalog_runs_once_it_is_calibrated() -> None:
    assert not predict(network("resnet50"), "cpu-x86-64-avx2").runs
    known = Knowledge.of([calibration(setup("cpu-x86-64-avx2", power=None), SPEEDS * 50)], shipped())
    assert predict(network("resnet50"), "cpu-x86-64-avx2", known).basis == "calibrated"


def observed(profile: Profile, count: int, device: str = "t4") -> ObservedUse:
    latency = Latency(Seconds(0.5), Seconds(0.6), count)
    return ObservedUse(setup(device), "a host", profile.digest, profile.name, "", "", Bytes(3 << 30), latency)


def test_observed_latencies_count_most() -> None:
    profile, runs = network("resnet50"), calibration(setup("t4"))
    many = predict(profile, "t4", Knowledge.of([runs], shipped(), [observed(profile, 50)]))
    assert many.seconds == pytest.approx(0.5, rel=0.2)
    assert (many.basis, many.confidence, many.memory) == ("measured", "high", 3 << 30)
    few = predict(profile, "t4", Knowledge.of([runs], shipped(), [observed(profile, 1)]))
    assert few.basis == "calibrated"
    assert truth("resnet50") < (few.seconds or 0) < 0.5


def test_the_largest_measured_peak_stays() -> None:
    profile, runs = network("plain"), calibration(setup("t4"))
    ran = predict(profile, "t4", Knowledge.of([runs], shipped())).memory
    small = replace(observed(profile, 50), peak_bytes=Bytes(1 << 20))
    assert predict(profile, "t4", Knowledge.of([runs], shipped(), [small])).memory == ran
    assert predict(profile, "t4", Knowledge.of([runs], shipped(), [observed(profile, 50)])).memory == 3 << 30


def test_observed_use_of_another_device_batch_or_precision_does_not_count() -> None:
    profile = network("resnet50")
    known = Knowledge.of([], shipped(), [observed(profile, 50)])
    assert predict(profile, "t4", known).basis == "measured"
    assert predict(profile, "l4", known).basis == "data sheet"
    assert predict(profile, "t4@1/2", known).basis == "data sheet"
    assert predict(profile, "t4", known, batch=2).basis == "data sheet"
    assert predict(profile, "t4", known, precision="int8").basis == "data sheet"


def test_of_two_machines_the_one_with_more_latencies_counts() -> None:
    profile = network("resnet50")
    known = Knowledge.of(
        [], shipped(), [observed(profile, 6), replace(observed(profile, 20), host="another")]
    )
    assert predict(profile, "t4", known).basis == "measured"


def test_a_model_measured_on_other_devices_is_transferred() -> None:
    odd = trial(features(network("resnet50")), "resnet50", SPEEDS * 3)
    others = [calibration(setup(device)) for device in ("l4", "a100", "a2", "rtx-3090")]
    others = [replace(other, trials=(*other.trials, odd)) for other in others]
    known = Knowledge.of([calibration(setup("t4")), *others], shipped())
    result = predict(network("resnet50"), "t4", known)
    assert result.basis == "similar"
    assert result.seconds == pytest.approx(3 * truth("resnet50"), rel=0.3)


def test_a_batch_costs_less_than_its_parts() -> None:
    one, many = seconds(network("resnet50"), "t4"), seconds(network("resnet50"), "t4", batch=16)
    assert one < many < 16 * one
    written = seconds(network("resnet50", 16), "t4")
    assert many == pytest.approx(written, rel=0.02)


def test_fewer_bits_are_faster_and_smaller() -> None:
    wide, narrow = predict(network("resnet50"), "t4"), predict(network("resnet50"), "t4", precision="int8")
    assert (narrow.precision, narrow.needs) == ("int8", ())
    assert (narrow.seconds or 0) < (wide.seconds or 0)
    assert (narrow.memory or 0) < (wide.memory or 0)


def test_missing_memory_is_a_reason() -> None:
    result = predict(network("resnet50"), "t4@1%")
    assert (result.runs, result.fits, result.available) == (True, False, (16 << 30) // 100)
    assert result.reasons[0].startswith("memory: it takes ")
    assert not result.good


def test_the_p90_decides_whether_the_slo_is_met() -> None:
    result = predict(network("resnet50"), "t4", T4)
    assert result.p90 is not None
    assert result.seconds is not None
    assert predict(network("resnet50"), "t4", T4, slo=result.p90 * 1.01).meets_slo is True
    assert predict(network("resnet50"), "t4", T4, slo=(result.p90 + result.seconds) / 2).meets_slo is False
    assert predict(network("vit_tiny"), "coral-usb", slo=9.0).meets_slo is False
    assert result.meets_slo is None


def test_a_device_that_is_not_ready_runs_no_model() -> None:
    down = replace(target("t4", shipped()), reason="it is present only: no driver")
    result = predict(network("resnet50"), down)
    assert (result.runs, result.seconds, result.reasons) == (False, None, ("it is present only: no driver",))


def test_a_lower_bound_is_never_of_high_confidence() -> None:
    profile = network("resnet50")
    vague = replace(profile, operators=(replace(profile.operators[0], exact=False), *profile.operators[1:]))
    assert predict(vague, "t4", T4).confidence == "low"


def test_a_power_mode_and_a_share_cost_time_and_save_power() -> None:
    full, mode = (
        predict(network("resnet50"), "jetson-agx-xavier"),
        predict(network("resnet50"), "jetson-agx-xavier@15w"),
    )
    assert (mode.seconds or 0) > (full.seconds or 0)
    assert (mode.watts or 0) < (full.watts or 0)
    whole, part = predict(network("resnet50"), "a100"), predict(network("resnet50"), "a100@1/7")
    assert (whole.seconds or 0) < (part.seconds or 0) < 7 * (whole.seconds or 0)


def test_a_prediction_of_all_devices_equals_each_alone() -> None:
    query = Query.of(network("mobilenet_v2"))
    every = targets(["all"], shipped())
    together = estimate(query, every, T4)
    assert [each.device for each in together] == [each.name for each in every]
    for device, result in list(zip(every, together, strict=True))[::29]:
        [alone] = estimate(query, [device], T4)
        assert (alone.runs, alone.reasons, alone.basis) == (result.runs, result.reasons, result.basis)
        assert alone.seconds == (None if result.seconds is None else pytest.approx(result.seconds))


def test_without_devices_there_are_no_estimates() -> None:
    assert estimate(Query.of(network("resnet50")), [], NOTHING) == []


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"precision": "int3"}, "no precision 'int3'"),
        ({"batch": 0}, "a batch of 0"),
        ({"batch": -1}, "a batch of -1"),
        ({"batch": 10**9}, "a batch of 1000000000"),
        ({"slo": Seconds(0.0)}, "cannot be met"),
        ({"slo": Seconds(float("nan"))}, "cannot be met"),
    ],
)
def test_an_invalid_query_is_refused(asked: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Query.of(network("plain"), **asked)  # type: ignore[arg-type]  # a table
