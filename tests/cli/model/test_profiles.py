"""`fairlead profiles`, on a folder and on a real API server, and `calibrate --cluster`."""

import argparse
import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from fairlead import keys
from fairlead.calibrate.profile import calibration_file, load_all, save
from fairlead.calibrate.profile_folder import add_profiles
from fairlead.calibration import setup_id
from fairlead.cli.model import calibrate, profiles
from fairlead.cli.model.profiles_cluster import group_by_setup
from fairlead.errors import ClusterUnavailableError, FairleadError, KubeconfigError, SettingsError, UserError
from fairlead.units import Watts
from fairlead.zoo import PACK
from fairlead.zoo.onnxfile import write
from tests.labs import RealCluster
from tests.profiles import HOST, SETUP, calibration, drop, observed, serving_profiles

ID = setup_id(SETUP, HOST)
SUMMARY = ["id", "setup", "host", "made", "trials", "measured", "seen"]


def run(*words: str) -> int:
    """Parse and run a command."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers()
    profiles.add(commands)
    calibrate.add(commands)
    options = parser.parse_args(words)
    return int(options.run(options))


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Return a folder with profiles of two setups."""
    add_profiles([calibration(), calibration("t4")], [observed()], str(tmp_path))
    return str(tmp_path)


def test_a_list_of_setups(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("profiles", "list", "--folder", folder, "-o", "json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert [list(each) for each in listed] == [SUMMARY] * 2
    assert [listed[0][key] for key in ("id", "trials", "measured", "seen")] == [ID, 2, 1, 1]
    run("profiles", "list", "--folder", folder)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:2] == [ID, "l4-onnxruntime-cuda-fp16-72w"]
    assert "1 of 2" in lines[1]
    run("profiles", "list", "--folder", f"{folder}/none")
    assert capsys.readouterr().out == "no profiles\n"
    run("profiles", "list", "--folder", folder, "--no-headers")
    assert capsys.readouterr().out.splitlines() == lines[1:]
    run("profiles", "list", "--folder", folder, "-o", "name")
    assert capsys.readouterr().out.splitlines() == [line.split()[0] for line in lines[1:]]
    run("profiles", "list", "--folder", f"{folder}/none", "-o", "name")
    assert capsys.readouterr().out == ""


def test_a_setup_is_shown(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    run("profiles", "show", ID[:6], "--folder", folder, "-o", "yaml")
    shown = yaml.safe_load(capsys.readouterr().out)
    assert list(shown) == ["id", "calibration", "seen"]
    assert shown["seen"][0]["latency"] == {"median": 0.011, "p90": 0.017, "count": 40, "ratio": 1.25}
    run("profiles", "show", "l4-onnxruntime-cuda-fp16-72w", "--folder", folder)
    table = capsys.readouterr().out
    assert "it crashed" in table
    assert "detector.onnx  11.00 ms  17.00 ms  40    125%" in table
    assert "4.5 s" in table


def test_control_characters_are_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "a\x1b[2Jb\u202e"
    trials = tuple(replace(trial, model=hostile) for trial in calibration().trials)
    add_profiles(
        [calibration(host=hostile, trials=trials)], [observed(host=hostile, model=hostile)], str(tmp_path)
    )
    run("profiles", "list", "--folder", str(tmp_path))
    run("profiles", "show", SETUP.name, "--folder", str(tmp_path))
    printed = capsys.readouterr().out
    assert printed.count("a?[2Jb?") == 5
    assert printed.replace("\n", "").isprintable()


def test_a_damaged_profile_is_reported_and_the_others_are_listed(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(folder, "bad.json").write_text("{")
    assert run("profiles", "list", "--folder", folder, "-o", "json") == 0
    printed = capsys.readouterr()
    assert len(json.loads(printed.out)) == 2
    assert f"skipped: {folder}/bad.json: not a profile" in printed.err


def test_delete_needs_a_confirmation(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match=f"every profile of {ID}"):
        run("profiles", "delete", ID, "--folder", folder)
    assert len(load_all(folder).calibrations) == 2
    assert run("profiles", "delete", ID, "--folder", folder, "--yes", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == [{"id": ID, "deleted": 2}]
    assert [each.setup.device for each in load_all(folder).calibrations] == ["t4"]


@pytest.mark.parametrize(
    ("name", "message"),
    [("none", "no such setup"), ("", "no such setup"), ("same", "2 setups have this name")],
)
def test_an_unknown_or_ambiguous_name_is_refused(name: str, message: str) -> None:
    known = group_by_setup([calibration(), calibration(host="another board")], [])
    with pytest.raises(SettingsError, match=message) as caught:
        profiles.find_setup(known, SETUP.name if name == "same" else name)
    assert ID in caught.value.hint


def test_profiles_of_one_setup_are_one_entry() -> None:
    uses = [observed(), observed(watts=Watts(1.0)), observed(digest="d" * 40)]
    (one,) = group_by_setup([calibration(), calibration()], uses)
    assert one.calibration == calibration()
    assert [each.digest[0] for each in one.seen] == ["c", "d"]


@pytest.mark.parametrize(
    "words", [("import",), ("export",), ("list", "--cluster"), ("show", "x", "--cluster")]
)
def test_a_missing_kubeconfig_is_reported(words: tuple[str, ...], folder: str, tmp_path: Path) -> None:
    place = ("--kubeconfig", str(tmp_path / "none"))
    verb, *rest = words
    with pytest.raises(KubeconfigError, match="none"):
        run("profiles", verb, *rest, *([folder] if verb == "import" else []), *place)


def test_a_named_file_must_be_a_profile(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b"\x00\xff")
    for name in ("x.json", "none.json"):
        with pytest.raises(UserError, match=name):
            run("profiles", "import", str(tmp_path / name), "--kubeconfig", "/none")


def test_shape_needs_a_model(folder: str) -> None:
    with pytest.raises(SettingsError, match="--shape without --model"):
        run("profiles", "import", folder, "--shape", "batch=1", "--kubeconfig", "/none")


@pytest.fixture
def cluster(real_cluster: RealCluster) -> Iterator[RealCluster]:
    """Return a cluster that serves the kind ModelProfile."""
    yield from serving_profiles(real_cluster)


def test_files_go_into_a_cluster_and_back(
    cluster: RealCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there, back = str(tmp_path / "there"), str(tmp_path / "back")
    mine, sight = calibration(cluster.namespace), observed(cluster.namespace)
    add_profiles([mine], [sight], there)
    use = ("--kubeconfig", str(cluster.api.kubeconfig))
    assert run("profiles", "import", there, *use, "--node", "n1", "-o", "json") == 0
    stored = {"made": 3, "changed": 0, "kept": 0, "left_out": []}
    assert json.loads(capsys.readouterr().out) == stored
    (file,) = Path(there).glob("*.json")
    assert run("profiles", "import", str(file), *use) == 0
    assert capsys.readouterr().out == "profiles: 0 created, 0 changed, 2 unchanged\n"
    run("profiles", "list", *use)
    id_ = setup_id(mine.setup, mine.host)
    assert id_ in capsys.readouterr().out
    assert run("profiles", "export", "--folder", back, *use) == 0
    assert f"{id_}.json" in capsys.readouterr().out
    assert mine in load_all(back).calibrations
    assert sight in load_all(back).seen
    assert run("profiles", "delete", id_, "--yes", *use) == 0
    assert capsys.readouterr().out.split() == ["ID", "DELETED", id_, "3"]
    with pytest.raises(SettingsError):
        run("profiles", "show", id_, *use)


def test_a_model_that_never_ran_is_stored_once(
    cluster: RealCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / f"{cluster.namespace}.onnx")
    write(PACK["plain"](1, "fp16"), path)
    use = ("--model", path, "--kubeconfig", str(cluster.api.kubeconfig))
    assert run("profiles", "import", *use) == 0
    assert capsys.readouterr().out == "profiles: 1 created, 0 changed, 0 unchanged\n"
    assert run("profiles", "import", *use) == 0
    assert capsys.readouterr().out == "profiles: 0 created, 0 changed, 1 unchanged\n"
    run("profiles", "list", "-o", "json", *use[2:])
    (mine,) = [load for load in json.loads(capsys.readouterr().out) if load["host"] == Path(path).name]
    assert (mine["trials"], mine["measured"]) == (1, 0)
    assert run("profiles", "delete", mine["id"], "--yes", *use[2:]) == 0


def test_the_readable_profiles_of_a_damaged_folder_are_stored(
    cluster: RealCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = calibration(cluster.namespace)
    save(mine, calibration_file(str(tmp_path), mine))
    (tmp_path / "bad.json").write_text("[]")
    assert run("profiles", "import", str(tmp_path), "--kubeconfig", str(cluster.api.kubeconfig)) == 1
    printed = capsys.readouterr()
    assert "2 created" in printed.out
    assert "bad.json" in printed.err


def test_calibrate_stores_the_profile_in_the_cluster(
    cluster: RealCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    file = str(tmp_path / "profile.json")
    use = ("--kubeconfig", str(cluster.api.kubeconfig), "--node", cluster.namespace)
    quick = ("calibrate", "--models", "thread", "--runs", "1", "--threads", "1", "--out", file)
    assert run(*quick, *use, "-o", "json") == 0
    (found,) = json.loads(capsys.readouterr().out)["calibrations"]
    assert sum(found["stored"].values()) == 1
    (entry,) = group_by_setup(load_all(str(tmp_path)).calibrations, ())
    try:
        run("profiles", "show", entry.id, *use[:2], "-o", "json")
        stored = json.loads(capsys.readouterr().out)["calibration"]
        assert [trial["model"] for trial in stored["trials"]] == ["thread"]
        assert stored["setup"] == found["setup"]
    finally:
        asyncio.run(drop(cluster, f"{keys.SETUP}={entry.id}"))


def test_an_unavailable_cluster_is_reported_before_the_calibration(
    real_cluster: RealCluster, tmp_path: Path
) -> None:
    document = yaml.safe_load(real_cluster.api.kubeconfig.read_text())
    document["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(document))
    out = str(tmp_path / "profile.json")
    with pytest.raises(FairleadError) as caught:
        run("calibrate", "--models", "1", "--out", out, "--kubeconfig", str(tmp_path / "kubeconfig"))
    assert isinstance(caught.value, ClusterUnavailableError)
    assert not Path(out).exists()
