"""Profiles as files: saved profiles load again; a damaged file is refused with the reason."""

import json
from pathlib import Path

import pytest

from fairlead.calibrate.profile import default_folder, load, save
from fairlead.calibration import Calibration, Features, MeasuredRun, OperatorWork, Setup, Trial
from fairlead.errors import UserError
from fairlead.units import Bytes, Seconds, Watts

MEASURED = MeasuredRun(Seconds(0.01), Seconds(0.02), 9, Seconds(0.03), 0.5, Bytes(100), None, Watts(20.0))
FEATURES = Features("digest", 1, 3, Bytes(50), {"conv": OperatorWork(2, 10, 20, 15, 30, 40)})
CALIBRATION = Calibration(
    Setup("l4", "onnxruntime-cuda", "1.2", "fp16", 0, 1e12, 16e9, Watts(72.0)),
    "a host",
    "2026-11-16T04:00:00+00:00",
    (Trial("plain", FEATURES, MEASURED), Trial("points", FEATURES, None, "it crashed")),
)


def test_a_saved_calibration_loads_again(tmp_path: Path) -> None:
    file = str(tmp_path / "new" / "folder" / "profile.json")
    save(CALIBRATION, file)
    assert load(file) == CALIBRATION
    assert [path.name for path in Path(file).parent.iterdir()] == ["profile.json"]
    assert [trial.model for trial in load(file).done] == ["plain"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a profile"),
        ("[]", "not a profile"),
        ("{}", "not a profile: KeyError"),
        ('{"version": 99}', "a profile of version 99; this program reads 2"),
        ('{"version": 2, "setup": {}}', "not a profile"),
        ("[" * 100_000, "not a profile"),
        (" " * (5 << 20), "larger than 4 MiB"),
    ],
    ids=["empty", "list", "object", "newer", "hollow", "deep", "large"],
)
def test_a_damaged_file_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "profile.json").write_text(text)
    with pytest.raises(UserError, match=message) as caught:
        load(str(tmp_path / "profile.json"))
    assert "fairlead calibrate" in caught.value.hint


@pytest.mark.parametrize("seconds", [0, -1, "NaN", None, "x", 1e300])
def test_impossible_times_are_refused(seconds: object, tmp_path: Path) -> None:
    document = CALIBRATION.to_json()
    document["trials"][0]["measured"]["seconds"] = seconds
    (tmp_path / "profile.json").write_text(json.dumps(document))
    with pytest.raises(UserError, match="not a profile"):
        load(str(tmp_path / "profile.json"))


def test_a_missing_file_and_an_unwritable_path_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        load(str(tmp_path / "none.json"))
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"profile\.json"):
        save(CALIBRATION, str(tmp_path / "file" / "profile.json"))


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({"HOME": "/home/x"}, "/home/x/.local/share/fairlead/profiles"),
        ({"HOME": "/home/x", "XDG_DATA_HOME": "/data"}, "/data/fairlead/profiles"),
        ({"HOME": "/home/x", "XDG_DATA_HOME": "data"}, "/home/x/.local/share/fairlead/profiles"),
    ],
)
def test_the_profile_folder_follows_the_xdg_specification(environ: dict[str, str], place: str) -> None:
    assert default_folder(environ) == place
