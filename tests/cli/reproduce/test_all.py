"""`fairlead reproduce all`: one page with every part, also where a part cannot be done; `devices` alone."""

import json
from pathlib import Path

import pytest

from fairlead.cli.main import build_parser, main
from fairlead.cli.output.terminal import Page
from fairlead.cli.reproduce.every import EXPERIMENTS, ReportPart, section
from fairlead.cli.reproduce.outcome import ExperimentOutcome
from tests.cli.output.test_html import read


def test_the_contract_of_devices(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["reproduce", "devices", "-o", "json", "--plot", str(tmp_path / "d.svg")]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert list(answer) == ["precision", "networks", "statements"]
    assert all(list(row) == ["network", "devices"] for row in answer["networks"])
    fields = [
        "device",
        "precision",
        "seconds",
        "p90_seconds",
        "confidence",
        "published_seconds",
        "published_by",
    ]
    assert all(list(each) == fields for row in answer["networks"] for each in row["devices"])
    assert all(list(each) == ["statement", "agrees"] for each in answer["statements"])
    assert (tmp_path / "d.svg").read_text().startswith("<svg")


def test_a_page_has_the_figures_the_machine_and_the_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "all.html"
    words = ["reproduce", "all", "--quick", "--only", "devices,gpu-sharing", "--out", str(path)]
    assert main([*words, "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert list(answer) == ["page", "machine", "parts"]
    assert [part["name"] for part in answer["parts"]] == ["gpu-sharing", "devices"]
    assert all(list(part) == ["name", "command", "seconds", "missing", "answer"] for part in answer["parts"])
    text = path.read_text(encoding="utf-8")
    pieces = [piece for _, piece in read(text)]
    assert text.count("<svg") == 2
    assert "$ fairlead reproduce gpu-sharing --levels 0,100,250" in pieces
    assert any(piece.startswith("Machine: ") and "cores" in piece for piece in pieces)
    assert "4052 (4078)" in pieces


def test_a_part_that_cannot_be_done_says_why() -> None:
    part = ReportPart(EXPERIMENTS[1], "fairlead reproduce pipeline", 0.1, None, "no C compiler")
    assert part.missing == ["no C compiler"]
    assert ("p", "Missing: no C compiler") in read("\n".join(section(part)))


def test_a_part_that_is_done_in_part_says_what_is_missing() -> None:
    outcome = ExperimentOutcome(
        {"missing": ["the cuts: no root"]}, Page.of("Missing: the cuts: no root."), None, 1
    )
    part = ReportPart(EXPERIMENTS[1], "fairlead reproduce pipeline", 2.0, outcome)
    assert part.missing == ["the cuts: no root"]
    assert ("p", "Missing: the cuts: no root.") in read("\n".join(section(part)))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "augmentt"], "--only augmentt: no experiment 'augmentt'"),
        (["--out", "/nowhere/x.html"], "--out /nowhere/x.html: cannot be written"),
    ],
)
def test_options_that_must_be_changed(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["reproduce", "all", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda each: each.name)
def test_every_command_of_the_page_is_a_command(experiment: object, quick: bool) -> None:
    [each] = [known for known in EXPERIMENTS if known is experiment]
    assert callable(build_parser("reproduce").parse_args(each.words(quick=quick)).run)
    assert callable(each.module.perform)
