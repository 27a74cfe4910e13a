"""`fairlead reproduce augment`: its options, its page, and a small run of everything."""

import json
from pathlib import Path

import pytest

from fairlead.cli.main import build_parser, main
from fairlead.cli.reproduce.augment import check_disk, read_experiment
from fairlead.errors import SettingsError


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--images", "2"], "2 images: not from 4 to 100,000"),
        (["--images", "9", "--set-size", "1GiB"], "--set-size says how many images there are"),
        (["--set-size", "much"], "--set-size much:"),
        (["--image-size", "320"], "--image-size 320: no size"),
        (["--image-size", "4x4"], "--image-size 4x4: no size"),
        (["--batches", "1"], "--batches 1: not a number from 8 to 10,000"),
        (["--edge-cpu", "0"], "--edge-cpu 0: not a part from 0.02 to 1"),
        (["--rounds", "0"], "--rounds 0: not a number from 1 to 99"),
        (["--plot", "/nowhere/a.svg"], "--plot /nowhere/a.svg: cannot be written"),
    ],
)
def test_options_that_must_be_changed(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["reproduce", "augment", *words]) == 2
    assert message in capsys.readouterr().err


def test_what_options_ask_for() -> None:
    words = ["reproduce", "augment", "--set-size", "1GB", "--image-size", "640x480"]
    whole = read_experiment(build_parser().parse_args(words))
    assert (whole.images, whole.batches, whole.rounds) == (1085, 100, 3)
    quick = read_experiment(build_parser().parse_args(["reproduce", "augment", "--quick"]))
    assert (quick.images, quick.batches, quick.rounds, quick.width) == (80, 30, 1, 320)


def test_a_set_that_does_not_fit_on_the_disk_is_refused_before_it_is_made() -> None:
    words = ["reproduce", "augment", "--set-size", "4GiB"]
    experiment = read_experiment(build_parser().parse_args(words))
    check_disk(experiment, "/tmp", 6 << 30)
    with pytest.raises(
        SettingsError, match=r"18640 images need 5\.2 GiB of disk, and /tmp has 4\.0 GiB"
    ) as refused:
        check_disk(experiment, "/tmp", 4 << 30)
    assert "TMPDIR" in str(refused.value.hint)


def test_a_small_run_has_every_arrangement(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = [
        "--images",
        "4",
        "--batches",
        "8",
        "--rounds",
        "1",
        "--without-split",
        "--plot",
        str(tmp_path / "a.svg"),
    ]
    main(["reproduce", "augment", *words, "-o", "json"])
    answer = json.loads(capsys.readouterr().out)
    assert list(answer) == ["rounds", "images", "documents", "published", "rows", "missing"]
    fields = [
        "job",
        "arrangement",
        "how",
        "workers",
        "inputs",
        "seconds",
        "rate",
        "by_server",
        "bound",
        "device_share",
        "cpu_s",
    ]
    assert all(list(row) == fields for row in answer["rows"])
    names = [row["arrangement"] for row in answer["rows"] if row["arrangement"] != "server, accelerator"]
    assert names == [
        *("device alone", "server, one core"),
        *("server, one loader", "device alone", "server, two loaders", "server, four loaders"),
    ]
    assert all(row["rate"] > 0 for row in answer["rows"])
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
