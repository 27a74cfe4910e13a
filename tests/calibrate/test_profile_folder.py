"""A folder of profiles: a damaged file does not hide others, and added profiles are merged."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from fairlead.calibrate.profile import (
    ProfileFolder,
    calibration_file,
    load,
    load_all,
    load_any,
    load_observed,
    observed_file,
    save,
    save_observed,
)
from fairlead.calibrate.profile_folder import add_profiles, remove_setup
from fairlead.calibration import ObservedUse, setup_id
from fairlead.errors import UserError
from fairlead.units import Bytes, Seconds
from tests.profiles import MEASURED, SETUP, calibration, observed


def test_a_saved_observed_use_loads_again(tmp_path: Path) -> None:
    path = observed_file(str(tmp_path), observed())
    save_observed(observed(), path)
    assert load_observed(path) == load_any(path) == observed()
    bare = ObservedUse(SETUP, "", "d" * 40, "", "2026-11-16T04:00:00+00:00")
    save_observed(bare, path)
    assert load_observed(path) == bare


def test_a_whole_folder_is_read(tmp_path: Path) -> None:
    within = str(tmp_path)
    save(calibration(), calibration_file(within, calibration()))
    save_observed(observed(), observed_file(within, observed()))
    (tmp_path / "half.json").write_text('{"version": ')
    (tmp_path / "seen" / "binary.json").write_bytes(b"\x1f\x8b\x00\xff")
    (tmp_path / "notes.txt").write_text("not a profile, and not called one")
    (tmp_path / "folder.json").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    profiles = load_all(within)
    assert (profiles.calibrations, profiles.seen) == ((calibration(),), (observed(),))
    assert [Path(line.partition(":")[0]).name for line in profiles.damaged] == ["half.json", "binary.json"]


def test_a_missing_folder_is_empty(tmp_path: Path) -> None:
    assert load_all(str(tmp_path / "none")) == ProfileFolder()
    (tmp_path / "file").write_text("")
    assert load_all(str(tmp_path / "file")).damaged[0].endswith("Not a directory")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("peak_bytes", -1),
        ("peak_bytes", 1e400),
        ("watts", float("nan")),
        ("ramp", 0),
        ("latency", {"median": 1, "p90": 1, "count": -1, "ratio": None}),
        ("latency", []),
        ("setup", None),
        ("version", 99),
    ],
)
def test_an_impossible_observed_use_is_refused(field: str, value: object, tmp_path: Path) -> None:
    path = tmp_path / "seen.json"
    path.write_text(json.dumps({**observed().to_json(), field: value}))
    with pytest.raises(UserError, match=r"seen\.json: ") as caught:
        load_observed(str(path))
    assert caught.value.hint


def test_added_profiles_are_merged_into_the_file_of_their_setup(tmp_path: Path) -> None:
    within = str(tmp_path)
    own = calibration_file(within, calibration())
    save(calibration(), own)
    quick = replace(MEASURED, seconds=Seconds(0.001), peak_bytes=Bytes(5))
    trials = tuple(replace(trial, measured=quick, reason="") for trial in calibration().trials)
    more = observed(peak_bytes=Bytes(9_000), latency=None)
    first = add_profiles(
        [calibration(trials=trials), calibration(host="another board")], [observed(), more], within
    )
    assert first[0] == own
    assert first[1] != own
    assert first[2] == first[3]
    plain, points = (trial.measured for trial in load(own).trials)
    assert (plain, points) == (replace(quick, peak_bytes=MEASURED.peak_bytes), quick)
    assert load_observed(first[2]) == observed(peak_bytes=Bytes(9_000))
    assert add_profiles([], [], within) == []


def test_removing_a_setup_keeps_the_others(tmp_path: Path) -> None:
    within = str(tmp_path)
    add_profiles([calibration(), calibration(host="another board")], [observed()], within)
    (tmp_path / "damaged.json").write_text("")
    assert remove_setup(setup_id(SETUP, calibration().host), within) == 2
    assert [each.host for each in load_all(within).calibrations] == ["another board"]
    assert remove_setup("none", within) == 0
    assert (tmp_path / "damaged.json").exists()


def test_a_file_that_cannot_be_written_leaves_no_part(tmp_path: Path) -> None:
    (tmp_path / "profile.json").mkdir()
    with pytest.raises(UserError, match=r"profile\.json: Is a directory"):
        save(calibration(), str(tmp_path / "profile.json"))
    assert [path.name for path in tmp_path.iterdir()] == ["profile.json"]
