"""A folder of profiles: a damaged file does not hide others, and added profiles are merged."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
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
from fairlead.calibrate.profile_folder import add_profiles, remove_setup, store
from fairlead.calibration import Calibration, MeasuredRun, ObservedUse, Trial, setup_id
from fairlead.errors import UserError
from fairlead.units import Bytes, Seconds
from tests.profiles import MADE, MEASURED, SETUP, calibration, features, observed


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
    dated = replace(quick, made=MADE)
    assert (plain, points) == (replace(dated, peak_bytes=MEASURED.peak_bytes), dated)
    assert load_observed(first[2]) == observed(peak_bytes=Bytes(9_000))
    assert add_profiles([], [], within) == []


EARLIER, LATER = "2026-11-16T04:00:00+00:00", "2026-11-17T04:00:00+00:00"
NOISY = replace(MEASURED, waited=0.8)
QUIET = replace(MEASURED, waited=0.0, noise=0.02)


def of_models(made: str, run: MeasuredRun, *letters: str, **changes: object) -> Calibration:
    trials = tuple(Trial(letter, features(letter), replace(run, made=made)) for letter in letters)
    return replace(calibration(made=made, trials=trials), **changes)  # type: ignore[arg-type]  # a table


def test_a_calibration_of_fewer_models_replaces_none_of_the_others(tmp_path: Path) -> None:
    path = str(tmp_path / "profile.json")
    assert store(of_models(EARLIER, QUIET, "a", "b", "c"), path)[0] == path
    place, held = store(of_models(LATER, replace(QUIET, seconds=Seconds(0.5)), "b"), path)
    assert place == path
    assert held == load(path)
    assert {trial.model: (run.made, run.seconds) for trial in held.trials if (run := trial.measured)} == {
        "a": (EARLIER, QUIET.seconds),
        "b": (LATER, 0.5),
        "c": (EARLIER, QUIET.seconds),
    }


@pytest.mark.parametrize(
    ("before", "now", "kept"),
    [
        (QUIET, QUIET, LATER),
        (NOISY, QUIET, LATER),
        (QUIET, NOISY, EARLIER),
        (NOISY, NOISY, LATER),
        (replace(NOISY, waited=0.63), replace(NOISY, waited=0.83), EARLIER),
        (QUIET, replace(QUIET, noise=0.03), LATER),
    ],
)
def test_the_newer_run_counts_unless_it_was_noisier(
    before: MeasuredRun, now: MeasuredRun, kept: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "profile.json")
    store(of_models(EARLIER, before, "a"), path)
    [trial] = store(of_models(LATER, now, "a"), path)[1].trials
    assert trial.measured is not None
    assert trial.measured.made == kept


def test_a_failure_replaces_no_measurement(tmp_path: Path) -> None:
    path = str(tmp_path / "profile.json")
    store(of_models(EARLIER, QUIET, "a"), path)
    failed = replace(of_models(LATER, QUIET), trials=(Trial("a", features("a"), None, "it crashed"),))
    assert store(failed, path)[1].done


def test_the_clock_of_a_running_machine_makes_no_other_setup(tmp_path: Path) -> None:
    path = str(tmp_path / "profile.json")
    first = of_models(EARLIER, QUIET, "a")
    store(first, path)
    slower = replace(first.setup, effective_ops=0.95 * (first.setup.effective_ops or 0))
    place, held = store(of_models(LATER, QUIET, "b", setup=slower), path)
    assert (place, len(held.trials)) == (path, 2)


def test_another_setup_gets_a_file_of_its_own(tmp_path: Path) -> None:
    path = str(tmp_path / "profile.json")
    first = of_models(EARLIER, QUIET, "a", "b")
    store(first, path)
    newer = of_models(LATER, QUIET, "a", setup=replace(first.setup, version="9.9"))
    place, _ = store(newer, path)
    assert place != path
    assert load(path).setup == first.setup
    assert store(of_models(LATER, QUIET, "b", setup=newer.setup), path)[0] == place
    assert len(load(place).trials) == 2
    assert store(newer, str(tmp_path / "third.json"), str(tmp_path))[0] == place


def test_a_file_of_a_newer_program_is_left_alone_and_a_damaged_one_is_not(tmp_path: Path) -> None:
    newer, damaged = tmp_path / "newer.json", tmp_path / "damaged.json"
    text = json.dumps({**calibration().to_json(), "version": 99})
    newer.write_text(text)
    damaged.write_text("{")
    place, _ = store(calibration(), str(newer))
    assert place != str(newer)
    assert newer.read_text() == text
    assert store(calibration(), str(damaged))[0] == str(damaged)


def test_calibrations_that_end_together_lose_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "profile.json")
    letters = "abcdef"
    with ThreadPoolExecutor(len(letters)) as pool:
        list(pool.map(lambda letter: store(of_models(EARLIER, QUIET, letter), path), letters))
    assert {trial.model for trial in load(path).trials} == set(letters)


def test_a_profile_without_the_newer_fields_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    document = calibration().to_json()
    for trial in document["trials"]:
        for field in ("noise", "load", "made"):
            (trial["measured"] or {}).pop(field, None)
    path.write_text(json.dumps(document))
    [plain] = load(str(path)).done
    assert plain.measured == replace(MEASURED, made="")
    _, held = store(of_models(EARLIER, QUIET, "c"), str(path))
    assert {trial.measured.made for trial in held.done if trial.measured} == {EARLIER}


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
