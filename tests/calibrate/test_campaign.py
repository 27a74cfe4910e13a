"""Whole calibrations on this machine's CPU: through ONNX Runtime, and through PyTorch if installed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.analyze import analyze
from fairlead.calibrate.campaign import CalibrationPlan, build_models, calibrate
from fairlead.calibrate.targets import CalibrationTarget
from fairlead.calibration import Calibration, features
from tests.accelerators import accelerator

CPU = CalibrationTarget(accelerator("cpu:0", kind="cpu", model="cpu-x86-64"), "cpu")


def run(plan: CalibrationPlan, folder: Path, progress: Callable[[int, int, str], None]) -> Calibration:
    return calibrate(plan, CPU, build_models(plan, str(folder), analyze), "a host", progress)


def test_a_calibration_through_onnx_runtime(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    progress: list[tuple[int, int, str]] = []
    plan = CalibrationPlan(("thread", "columns"), threads=1, rounds=2, budget=0.05)
    calibration = run(plan, tmp_path, lambda *step: progress.append(step))
    assert calibration.setup.name == "cpu-x86-64-onnxruntime-cpu-fp32-1t"
    assert calibration.setup.version
    assert [trial.model for trial in calibration.done] == ["thread", "columns"]
    for trial in calibration.done:
        assert trial.measured is not None
        assert 0 < trial.measured.seconds <= trial.measured.p90
        assert trial.measured.base_bytes is not None
        assert trial.measured.base_bytes < trial.measured.peak_bytes
    assert progress == [(0, 4, "thread"), (1, 4, "columns"), (2, 4, "thread"), (3, 4, "columns"), (4, 4, "")]


def test_a_model_that_does_not_load_is_a_row_and_is_not_tried_again(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    plan = CalibrationPlan(("thread", "columns"), threads=1, rounds=3, budget=0.05)
    models = build_models(plan, str(tmp_path), analyze)
    (tmp_path / "columns.onnx").write_bytes(b"not a model")
    progress: list[int] = []
    calibration = calibrate(plan, CPU, models, "a host", lambda done, *_: progress.append(done))
    assert [trial.model for trial in calibration.done] == ["thread"]
    assert "InvalidProtobuf" in calibration.trials[1].reason
    assert progress[-1] == 4


def test_features_add_up_to_the_profile(tmp_path: Path) -> None:
    model = build_models(CalibrationPlan(("ladder",)), str(tmp_path), analyze)["ladder"]
    model_features = features(model.profile)
    assert sum(work.macs for work in model_features.work.values()) == model.profile.macs
    assert sum(work.weight_bytes for work in model_features.work.values()) == model.profile.weight_bytes
    assert sum(work.operators for work in model_features.work.values()) == len(model.profile.operators)
    assert 0 < model_features.work["conv"].largest_weight_bytes < model_features.work["conv"].weight_bytes


def test_a_calibration_through_pytorch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    plan = CalibrationPlan(("thread", "sentence"), runtime="torch", threads=1, rounds=1, budget=0.05)
    calibration = run(plan, tmp_path, lambda *_: None)
    assert [trial.model for trial in calibration.done] == ["thread", "sentence"]
    assert calibration.setup.runtime == "torch-cpu"
