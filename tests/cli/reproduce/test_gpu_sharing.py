"""`fairlead reproduce`: its contract, its table, its picture and its errors."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fairlead.cli.main import main

FIGURES = [
    "mean_pending_s",
    "worst_job_s",
    "p99_job_s",
    "makespan_s",
    "memory_mean_mib",
    "memory_max_mib",
    "utilisation_percent",
    "power_w",
    "energy_j",
    "restarts",
]


def test_the_contract_of_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plot = tmp_path / "levels.svg"
    words = [
        "reproduce",
        "gpu-sharing",
        "--levels",
        "0,40",
        "--arrival-seed",
        "5",
        "-o",
        "json",
        "--plot",
        str(plot),
    ]
    assert main(words) == 0
    answer = json.loads(capsys.readouterr().out)
    assert list(answer) == ["levels"]
    assert [list(level) for level in answer["levels"]] == [["overprovision_percent", "schedulers"]] * 2
    assert [level["overprovision_percent"] for level in answer["levels"]] == [0, 40]
    for level in answer["levels"]:
        assert list(level["schedulers"]) == ["stock", "alibaba", "cbp+pp", "fairlead-safe"]
        assert all(list(figures) == FIGURES for figures in level["schedulers"].values())
    texts = [
        each.text
        for each in ElementTree.fromstring(plot.read_text()).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert {"fairlead-safe", "cbp+pp, published", "Restarts"} <= set(texts)


def test_the_table_shows_published_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "gpu-sharing", "--levels", "0"]) == 0
    out = capsys.readouterr().out
    assert "(4078)" in out
    assert "27943 (27943)" in out


@pytest.mark.parametrize("levels", ["", "x", "-1", "1001", "0,,1", "nan"])
def test_levels_are_checked(levels: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "gpu-sharing", "--levels", levels]) == 2
    assert "--levels" in capsys.readouterr().err


def test_a_picture_is_checked_before_the_work_begins(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "gpu-sharing", "--plot", "/nowhere/x.svg"]) == 2
    assert main(["reproduce", "gpu-sharing", "--frontier", "--plot", "x.svg"]) == 2
    assert "--plot" in capsys.readouterr().err
