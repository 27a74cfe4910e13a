"""`fairlead calibrate`: its options, its refusals, and a real run on this machine's CPU."""

import argparse
import json
from pathlib import Path

import pytest

from fairlead.calibrate.profile import load
from fairlead.cli.model import calibrate
from fairlead.errors import SettingsError
from fairlead.zoo import PACK
from tests.accelerators import accelerator, node
from tests.catalogs import shipped

ABOVE = ["calibrations", "refused"]
CALIBRATION = ["file", "stored", "version", "setup", "host", "made", "trials", "earlier"]
SETUP = ["device", "runtime", "version", "precision", "threads"]
SETUP += ["effective_ops", "link_bits_per_second", "power_w"]
TRIAL = ["model", "features", "measured", "reason"]
FEATURES = ["digest", "batch", "groups", "peak_bytes", "work", "input_bytes", "output_bytes"]
WORK = ["operators", "macs", "weight_bytes", "largest_weight_bytes", "read_bytes", "written_bytes"]
WORK += ["smooth_bytes", "kernels"]
MEASURED = ["seconds", "p90", "runs", "wall", "waited", "peak_bytes", "base_bytes", "watts"]
MEASURED += ["noise", "load", "made"]


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    calibrate.add(parser.add_subparsers())
    return parser.parse_args(["calibrate", *words])


@pytest.mark.parametrize(
    ("words", "models"),
    [
        ((), tuple(PACK)),
        (("--models", "3"), tuple(PACK)[:3]),
        (("--models", "thread,plain,thread"), ("thread", "plain")),
    ],
)
def test_models_are_selected_from_the_pack(words: tuple[str, ...], models: tuple[str, ...]) -> None:
    assert calibrate.plan_of(options(*words)).models == models


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--models", "resnet50"), "the pack has no 'resnet50'"),
        (("--models", "0"), "the pack has no '0'"),
        (("--models", "999"), "the pack has no '999'"),
        (("--runs", "0"), "not between 1 and 100"),
        (("--threads", "0"), "not between 1 and"),
        (("--threads", "100000"), "not between 1 and"),
        (("--out", "."), "it is a folder"),
    ],
)
def test_an_invalid_option_is_refused(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        calibrate.plan_of(options(*words))
    assert caught.value.hint


def test_accelerators_are_selected_by_model_or_by_id() -> None:
    cpu = accelerator("cpu:0", kind="cpu", model="cpu-x86-64")
    gpu = accelerator(vendor="NVIDIA", kind="gpu", model="l4")
    machine, catalog = node(cpu, gpu), shipped()
    assert calibrate.select_accelerators(machine, [], catalog) == [cpu, gpu]
    assert calibrate.select_accelerators(machine, ["l4"], catalog) == [gpu]
    assert calibrate.select_accelerators(machine, [cpu.id, "l4"], catalog) == [cpu, gpu]
    assert calibrate.select_accelerators(machine, ["cpu-x86-64,l4"], catalog) == [cpu, gpu]
    with pytest.raises(SettingsError, match="--on a100: not on this machine") as caught:
        calibrate.select_accelerators(machine, ["a100"], catalog)
    assert caught.value.hint == "here: cpu-x86-64, l4"


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("gpu", ["gpu"]),
        ("nvidia", ["gpu"]),
        ("nvidia-ada", ["gpu"]),
        ("cpu", ["cpu"]),
        ("NVIDIA L4", ["gpu"]),
    ],
)
def test_accelerators_are_selected_by_kind_vendor_and_family_too(name: str, kinds: list[str]) -> None:
    cpu = accelerator("cpu:0", kind="cpu", model="cpu-x86-64")
    machine = node(cpu, accelerator(vendor="NVIDIA", kind="gpu", model="l4"))
    assert [acc.kind for acc in calibrate.select_accelerators(machine, [name], shipped())] == kinds


def test_a_run_on_this_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    file = str(tmp_path / "profile.json")
    parsed = options("--models", "thread", "--runs", "1", "--threads", "1", "--out", file, "-o", "json")
    code = parsed.run(parsed)
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert code == 0
    assert list(document) == ABOVE
    (found,) = document["calibrations"]
    assert list(found) == CALIBRATION
    assert list(found["setup"]) == SETUP
    (trial,) = found["trials"]
    assert list(trial) == TRIAL
    assert list(trial["features"]) == FEATURES
    assert list(trial["features"]["work"]["conv"]) == WORK
    assert list(trial["measured"]) == MEASURED
    assert "by cpu" in printed.err
    assert "MODEL" in str(calibrate.table(load(file)))
    assert "thread" in str(calibrate.table(load(file)))


def test_a_second_run_with_another_model_adds_to_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    file = str(tmp_path / "profile.json")
    for name in ("thread", "sentence"):
        parsed = options("--models", name, "--runs", "1", "--threads", "1", "--out", file)
        assert parsed.run(parsed) == 0
    assert f"wrote {file}: it keeps earlier runs of 1 model, thread" in capsys.readouterr().out
    assert [trial.model for trial in load(file).done] == ["thread", "sentence"]
    assert all(trial.measured and trial.measured.made for trial in load(file).done)
