"""Training steps: their seconds beside measured ones, devices without training, and the whole job."""

from math import log
from pathlib import Path

import pytest

from fairlead.catalog import Catalog
from fairlead.errors import SettingsError
from fairlead.estimate.knowledge import Knowledge
from fairlead.estimate.target import target, target_of_setup
from fairlead.training.predict import TrainingEstimate, TrainingJob, estimate_training
from fairlead.training.setup import TrainingSetup
from fairlead.units import Seconds
from tests.analyze.models import graph, node, value, weight
from tests.analyze.models import profile as profiled
from tests.estimate.networks import network
from tests.estimate.worlds import SPEEDS, calibration, setup

H200 = (
    ("resnet18", 64, "fp32", 13.66),
    ("resnet18", 64, "amp", 10.34),
    ("resnet50", 64, "fp32", 32.52),
    ("resnet50", 64, "amp", 23.51),
    ("mobilenet_v2", 64, "fp32", 26.99),
    ("mobilenet_v2", 64, "amp", 21.78),
)
"""Milliseconds of a step with momentum on an H200, PyTorch 2.11."""


def on(device: str, name: str, catalog: Catalog, batch: int = 64, **setup: object) -> TrainingEstimate:
    """Return the estimate of a network's training."""
    job = TrainingJob.of(network(name), TrainingSetup.of(batch, **setup))  # type: ignore[arg-type] # by name
    [estimate] = estimate_training(job, [target(device, catalog)], Knowledge())
    return estimate


@pytest.mark.parametrize(("name", "batch", "precision", "milliseconds"), H200)
def test_a_step_takes_what_it_took(
    name: str, batch: int, precision: str, milliseconds: float, catalog: Catalog
) -> None:
    step = on("h200", name, catalog, batch, precision=precision).step
    assert step.seconds is not None
    assert step.p90 is not None
    assert abs(log(step.seconds * 1e3 / milliseconds)) < 0.45
    assert step.p90 > step.seconds


def test_a_job_ends_after_its_steps(catalog: Catalog) -> None:
    estimate = on("t4", "resnet18", catalog, 100, samples=1050, epochs=2)
    assert estimate.steps == 22
    assert estimate.step.seconds is not None
    assert estimate.job_seconds == pytest.approx(22 * estimate.step.seconds)
    assert on("t4", "resnet18", catalog).job_seconds is None


def test_the_device_must_hold_more_than_the_allocator_counts(catalog: Catalog) -> None:
    estimate = on("t4", "resnet50", catalog, 64)
    assert estimate.memory is not None
    assert estimate.device_bytes is not None
    assert estimate.memory.peak == estimate.step.memory
    assert estimate.device_bytes > estimate.memory.peak
    large = on("t4", "resnet50", catalog, 512)
    assert not large.step.fits
    assert "--checkpointing" in large.step.reasons[0]


def test_only_devices_that_frameworks_train_on(catalog: Catalog) -> None:
    step = on("coral-usb", "mobilenet_v2", catalog).step
    assert not step.runs
    assert step.seconds is None
    assert "do not train" in step.reasons[0]


def test_a_device_without_a_peak_is_not_known(catalog: Catalog) -> None:
    device = next(row for row in catalog.devices.values() if row.kind == "gpu" and not row.peak)
    estimate = on(device.id, "mobilenet_v2", catalog)
    assert estimate.step.runs is None
    assert estimate.step.seconds is None
    assert estimate.step.memory is not None
    assert estimate.step.reasons[-1].startswith("not known:")


def test_checkpointing_takes_longer(catalog: Catalog) -> None:
    plain = on("h200", "resnet50", catalog).step.seconds
    again = on("h200", "resnet50", catalog, checkpointing=True).step.seconds
    assert plain is not None
    assert again is not None
    assert 1.15 < again / plain < 1.5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"optimizer": "magic"}, "--optimizer magic: not known"),
        ({"precision": "int8"}, "--precision int8"),
        ({"samples": 0}, "--samples 0"),
        ({"epochs": 2}, "--epochs needs --samples"),
    ],
)
def test_what_cannot_be_is_refused(words: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        TrainingSetup.of(8, **words)  # type: ignore[arg-type] # wrong on purpose


def with_speeds(device: str, factor: float, catalog: Catalog) -> TrainingEstimate:
    """Return the estimate on a device whose calibration is slower by a factor."""
    where = setup(device, power=None) if device.startswith("cpu") else setup(device)
    known = calibration(where, factor * SPEEDS)
    fitted = Knowledge.of([known], catalog)
    place = target_of_setup(known.setup, catalog)
    assert place is not None
    job = TrainingJob.of(network("resnet18"), TrainingSetup.of(16))
    [estimate] = estimate_training(job, [place], fitted)
    return estimate


def test_a_calibration_of_a_processor_sets_its_costs(catalog: Catalog) -> None:
    fast, slow = (with_speeds("cpu-x86-64-avx2", factor, catalog).step for factor in (20.0, 60.0))
    assert fast.basis == slow.basis == "calibrated"
    assert fast.seconds is not None
    assert slow.seconds is not None
    assert 2 < slow.seconds / fast.seconds <= 3


def test_a_calibration_of_a_gpu_counts_for_half(catalog: Catalog) -> None:
    fast, slow = (with_speeds("t4", factor, catalog).step for factor in (1.0, 3.0))
    assert fast.basis == slow.basis == "calibrated"
    assert fast.seconds is not None
    assert slow.seconds is not None
    assert 1.2 < slow.seconds / fast.seconds < 2


def test_a_deadline_is_of_the_whole_job(catalog: Catalog) -> None:
    job = TrainingJob.of(network("resnet18"), TrainingSetup.of(100, samples=100_000))
    devices = [target("t4", catalog)]
    [within] = estimate_training(job, devices, Knowledge(), Seconds(3600))
    [late] = estimate_training(job, devices, Knowledge(), Seconds(10))
    assert within.step.meets_slo
    assert not late.step.meets_slo


def test_a_recurrent_layer_takes_its_steps_one_after_the_other(catalog: Catalog, tmp_path: Path) -> None:
    seconds = []
    for length in (50, 400):
        weights = [weight("w", 1, 512, 64), weight("r", 1, 512, 128)]
        layer = node("LSTM", "x w r", "y", hidden_size=128)
        profile = profiled(tmp_path, graph([layer], [value("x", length, 1, 64)], weights, ["y"]))
        job = TrainingJob.of(profile, TrainingSetup(1))
        [estimate] = estimate_training(job, [target("h200", catalog)], Knowledge())
        assert estimate.step.seconds is not None
        seconds.append(estimate.step.seconds)
    assert seconds[1] > 5 * seconds[0]
