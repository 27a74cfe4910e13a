"""`fairlead estimate` learns from a model that ran on other devices, and from the profiles of a cluster."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.calibrate.profile_folder import add_profiles
from fairlead.calibration import Latency, ObservedUse, Setup
from fairlead.cli.main import main
from fairlead.units import Seconds
from fairlead.zoo import KNOWN
from fairlead.zoo.onnxfile import write
from tests.estimate.networks import network
from tests.estimate.worlds import SPEEDS, calibration, setup, truth
from tests.labs import RealCluster
from tests.profiles import serving_profiles

MODEL = "resnet50"
ODD = 1.8
"""The factor by which the model takes longer than its amounts of work predict, on every device."""
OTHERS = {"l4": 0.8, "a100": 0.3, "rtx-3090": 0.5}
"""Devices on which the model runs, and their times over those of SPEEDS."""
HERE = 1.3


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    file = str(tmp_path / f"{MODEL}.onnx")
    write(KNOWN[MODEL](1, "fp32"), file)
    return file


def observed_use(where: Setup, slower: float, count: int = 40) -> ObservedUse:
    """Return the observed use of the model on a device."""
    seconds = Seconds(ODD * slower * truth(MODEL))
    latency = Latency(seconds, Seconds(seconds * 1.05), count)
    digest = network(MODEL).digest
    return ObservedUse(where, "a host", digest, MODEL, "2026-11-16T05:00:00+00:00", latency=latency)


def run_estimate(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[float, str]:
    """Return the seconds and the basis of a single estimate."""
    assert main(["estimate", *words, "-o", "json"]) == 0
    [found] = json.loads(capsys.readouterr().out)["estimates"]
    return found["seconds"], found["basis"]


def test_a_model_used_on_three_devices_is_predicted_better_on_a_fourth(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = {name: setup(name) for name in OTHERS}
    calibrations = [calibration(where[name], SPEEDS * slower) for name, slower in OTHERS.items()]
    calibrations.append(calibration(setup("t4"), SPEEDS * HERE))
    sights = [observed_use(where[name], slower) for name, slower in OTHERS.items()]
    true = ODD * HERE * truth(MODEL)
    ask = (model, "--on", "t4", "--profiles")

    add_profiles(calibrations, [], str(tmp_path / "before"))
    before, basis = run_estimate(capsys, *ask, str(tmp_path / "before"))
    assert basis == "calibrated"
    assert before < 0.7 * true

    add_profiles(calibrations, sights, str(tmp_path / "after"))
    after, basis = run_estimate(capsys, *ask, str(tmp_path / "after"))
    assert basis == "similar"
    assert after == pytest.approx(true, rel=0.15)


@pytest.mark.parametrize("count", [9, 10])
def test_a_few_runs_are_not_transferred_to_other_devices(
    count: int, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calibrations = [calibration(setup(name), SPEEDS * slower) for name, slower in OTHERS.items()]
    sights = [observed_use(setup(name), slower, count) for name, slower in OTHERS.items()]
    add_profiles([*calibrations, calibration(setup("t4"), SPEEDS * HERE)], sights, str(tmp_path / "known"))
    _, basis = run_estimate(capsys, model, "--on", "t4", "--profiles", str(tmp_path / "known"))
    assert basis == ("similar" if count >= 10 else "calibrated")


@pytest.fixture
def cluster(real_cluster: RealCluster) -> Iterator[RealCluster]:
    """Return a cluster that serves the kind ModelProfile."""
    yield from serving_profiles(real_cluster)


def test_the_profiles_of_a_cluster_are_read(
    cluster: RealCluster, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    device = cluster.namespace
    (tmp_path / "own.toml").write_text(
        f'schema = 1\n[[device]]\nid = "{device}"\nname = "Own {device}"\nvendor = "NVIDIA"\nkind = "gpu"\n'
        "peak.fp32 = 8e12\npower.max_w = 70\n"
    )
    use = ("--kubeconfig", str(cluster.api.kubeconfig))
    ask = (model, "--on", device, "--catalog", str(tmp_path / "own.toml"))
    add_profiles([calibration(setup(device))], [observed_use(setup(device), 1.0)], str(tmp_path / "known"))
    assert main(["profiles", "import", str(tmp_path / "known"), *use, "--node", device]) == 0
    capsys.readouterr()

    assert run_estimate(capsys, *ask)[1] == "data sheet"
    seconds, basis = run_estimate(capsys, *ask, *use)
    assert basis == "measured"
    assert seconds == pytest.approx(ODD * truth(MODEL), rel=0.1)
    assert run_estimate(capsys, *ask, *use, "--profiles", str(tmp_path / "known")) == (seconds, basis)


def test_a_missing_kubeconfig_is_an_error(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["estimate", model, "--on", "t4", "--kubeconfig", str(tmp_path / "none")]) == 2
    assert "none" in capsys.readouterr().err
