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
    question = Query.of(profile, precision, batch, None if slo is None else Seconds(slo))
    where = target(device, shipped()) if isinstance(device, str) else device
    [found] = estimate(question, [where], known)
    return found


def seconds(profile: Profile, device: str, known: Knowledge = NOTHING, **asked: object) -> float:
    found = predict(profile, device, known, **asked)  # type: ignore[arg-type]  # a table
    assert found.seconds is not None
    return found.seconds


def test_a_data_sheet_is_of_low_confidence() -> None:
    found = predict(network("resnet50"), "a100")
    assert (found.runs, found.fits, found.confidence, found.basis) == (True, True, "low", "data sheet")
    assert found.p90 is not None
    assert found.seconds is not None
    assert found.p90 > found.seconds
    assert found.joules == pytest.approx(found.seconds * (found.watts or 0))


@pytest.mark.parametrize("name", EIGHT)
def test_a_calibrated_device_is_known_well(name: str) -> None:
    found = predict(network(name), "t4", T4)
    assert (found.basis, found.runtime) == ("calibrated", "onnxruntime-cuda")
    assert found.confidence in ("high", "medium")
    assert found.seconds == pytest.approx(truth(name), rel=0.1)
    assert found.watts is not None


def test_a_model_that_ran_there_is_as_it_ran() -> None:
    found = predict(network("plain"), "t4", T4)
    assert (found.basis, found.confidence, found.seconds) == ("measured", "high", truth("plain"))
    doubled = predict(network("plain"), "t4", T4, batch=2)
    assert doubled.basis == "calibrated"


def test_a_device_like_a_calibrated_one_learns_from_it() -> None:
    slow = Knowledge.of([calibration(setup("t4"), SPEEDS * 10)], shipped())
    alone, told = (
        predict(network("resnet50"), "rtx-2080-ti"),
        predict(network("resnet50"), "rtx-2080-ti", slow),
    )
    assert (alone.basis, told.basis) == ("data sheet", "similar")
    assert (told.seconds or 0) > 2 * (alone.seconds or 0)
    far = predict(network("resnet50"), "coral-usb", slow)
    assert far.basis == "data sheet"


def test_a_cpu_of_the_catalog_runs_once_it_is_calibrated() -> None:
    assert not predict(network("resnet50"), "cpu-x86-64-avx2").runs
    known = Knowledge.of([calibration(setup("cpu-x86-64-avx2", power=None), SPEEDS * 50)], shipped())
    assert predict(network("resnet50"), "cpu-x86-64-avx2", known).basis == "calibrated"


def observed(profile: Profile, count: int, device: str = "t4") -> ObservedUse:
    latency = Latency(Seconds(0.5), Seconds(0.6), count)
    return ObservedUse(setup(device), "a host", profile.digest, profile.name, "", "", Bytes(3 << 30), latency)


def test_latencies_of_real_use_count_most() -> None:
    profile, runs = network("resnet50"), calibration(setup("t4"))
    many = predict(profile, "t4", Knowledge.of([runs], shipped(), [observed(profile, 50)]))
    assert many.seconds == pytest.approx(0.5, rel=0.2)
    assert (many.basis, many.confidence, many.memory) == ("measured", "high", 3 << 30)
    few = predict(profile, "t4", Knowledge.of([runs], shipped(), [observed(profile, 1)]))
    assert few.basis == "calibrated"
    assert truth("resnet50") < (few.seconds or 0) < 0.5


def test_of_measured_peaks_the_largest_stays() -> None:
    profile, runs = network("plain"), calibration(setup("t4"))
    ran = predict(profile, "t4", Knowledge.of([runs], shipped())).memory
    small = replace(observed(profile, 50), peak_bytes=Bytes(1 << 20))
    assert predict(profile, "t4", Knowledge.of([runs], shipped(), [small])).memory == ran
    assert predict(profile, "t4", Knowledge.of([runs], shipped(), [observed(profile, 50)])).memory == 3 << 30


def test_real_use_elsewhere_or_of_other_work_is_not_this() -> None:
    profile = network("resnet50")
    known = Knowledge.of([], shipped(), [observed(profile, 50)])
    assert predict(profile, "t4", known).basis == "measured"
    assert predict(profile, "l4", known).basis == "data sheet"
    assert predict(profile, "t4@1/2", known).basis == "data sheet"
    assert predict(profile, "t4", known, batch=2).basis == "data sheet"
    assert predict(profile, "t4", known, precision="int8").basis == "data sheet"


def test_of_two_machines_the_one_that_saw_more_counts() -> None:
    profile = network("resnet50")
    known = Knowledge.of(
        [], shipped(), [observed(profile, 6), replace(observed(profile, 20), host="another")]
    )
    assert predict(profile, "t4", known).basis == "measured"


def test_a_model_that_ran_on_others_is_carried_over() -> None:
    odd = trial(features(network("resnet50")), "resnet50", SPEEDS * 3)
    others = [calibration(setup(device)) for device in ("l4", "a100", "a2", "rtx-3090")]
    others = [replace(other, trials=(*other.trials, odd)) for other in others]
    known = Knowledge.of([calibration(setup("t4")), *others], shipped())
    found = predict(network("resnet50"), "t4", known)
    assert found.basis == "similar"
    assert found.seconds == pytest.approx(3 * truth("resnet50"), rel=0.3)


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


def test_memory_that_is_not_there_is_a_reason() -> None:
    found = predict(network("resnet50"), "t4@1%")
    assert (found.runs, found.fits, found.available) == (True, False, (16 << 30) // 100)
    assert found.reasons[0].startswith("memory: it takes ")
    assert not found.good


def test_nine_of_ten_must_meet_the_objective() -> None:
    found = predict(network("resnet50"), "t4", T4)
    assert found.p90 is not None
    assert found.seconds is not None
    assert predict(network("resnet50"), "t4", T4, slo=found.p90 * 1.01).meets_slo is True
    assert predict(network("resnet50"), "t4", T4, slo=(found.p90 + found.seconds) / 2).meets_slo is False
    assert predict(network("vit_tiny"), "coral-usb", slo=9.0).meets_slo is False
    assert found.meets_slo is None


def test_a_device_that_is_down_runs_nothing() -> None:
    down = replace(target("t4", shipped()), reason="it is present only: no driver")
    found = predict(network("resnet50"), down)
    assert (found.runs, found.seconds, found.reasons) == (False, None, ("it is present only: no driver",))


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


def test_all_at_once_is_each_alone() -> None:
    question = Query.of(network("mobilenet_v2"))
    every = targets(["all"], shipped())
    together = estimate(question, every, T4)
    assert [each.device for each in together] == [each.name for each in every]
    for device, found in list(zip(every, together, strict=True))[::29]:
        [alone] = estimate(question, [device], T4)
        assert (alone.runs, alone.reasons, alone.basis) == (found.runs, found.reasons, found.basis)
        assert alone.seconds == (None if found.seconds is None else pytest.approx(found.seconds))


def test_nobody_is_asked() -> None:
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
def test_a_question_that_makes_no_sense(asked: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Query.of(network("plain"), **asked)  # type: ignore[arg-type]  # a table
