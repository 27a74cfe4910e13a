"""`fairlead bench predict`: a document for programs, a table for people, and errors."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from fairlead.cli.model import bench
from fairlead.cli.model.bench import PROTOCOLS
from fairlead.errors import SettingsError
from fairlead.evaluate import protocols
from tests.latencies import lines, write

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command and return its exit code and what it printed."""

    def run_command(*words: str) -> tuple[int, str]:
        parser = argparse.ArgumentParser()
        bench.add(parser.add_subparsers())
        options = parser.parse_args(["bench", "predict", *words])
        return options.run(options), capsys.readouterr().out

    return run_command


def test_the_option_lists_every_protocol() -> None:
    assert tuple(protocols.PROTOCOLS) == PROTOCOLS


def test_the_json_fields_are_frozen(run: Run, tmp_path: Path) -> None:
    code, out = run("--data", write(tmp_path, lines(4, 14)), "-o", "json")
    found = json.loads(out)
    assert code == 0
    assert list(found) == ["protocol", "calibration", "seed", "groups"]
    [group] = found["groups"]
    assert list(group) == ["group", "devices", "rows", "methods", "note", "trust"]
    assert list(group["methods"]) == ["flops", "roofline", "fairlead"]
    for figures in group["methods"].values():
        assert list(figures) == [
            *("mape", "median_ape", "within_10", "spearman", "kendall", "top1", "mean_regret")
        ]


def test_yaml_is_the_same_document(run: Run, tmp_path: Path) -> None:
    words = ("--data", write(tmp_path, lines(3, 8)), "--calibration", "4", "--seed", "2")
    assert yaml.safe_load(run(*words, "-o", "yaml")[1]) == json.loads(run(*words, "-o", "json")[1])


def test_people_get_a_table(run: Run, tmp_path: Path) -> None:
    code, out = run("--data", write(tmp_path, lines(4, 14)))
    head, *rows = out.splitlines()
    assert code == 0
    assert head.split()[:5] == ["GROUP", "DEVICES", "METHOD", "MAPE", "MEDIAN"]
    assert [row.split()[2] for row in rows] == ["flops", "roofline", "fairlead"]
    assert [row.count("%") for row in rows[:2]] == [3, 3]
    assert "% below their p90; errors by confidence: " in rows[2]


def test_a_table_without_measurements_says_so(run: Run, tmp_path: Path) -> None:
    assert run("--data", write(tmp_path, []))[1] == "The table has no measurements.\n"


@pytest.mark.parametrize("missing", ["none.csv", "."])
def test_a_file_that_cannot_be_read_is_named(run: Run, tmp_path: Path, missing: str) -> None:
    with pytest.raises(SettingsError, match="cannot be read") as error:
        run("--data", str(tmp_path / missing))
    assert error.value.exit_code == 2
