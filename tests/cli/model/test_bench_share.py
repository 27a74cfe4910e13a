"""`fairlead bench share`: a document for programs, tables for people, a picture, and errors."""

import argparse
import json
import re
import shlex
from pathlib import Path

import pytest

from fairlead.cli.model import bench
from fairlead.cli.model.bench_share_page import page
from fairlead.errors import FairleadError
from tests.sharebench.worlds import PLAYED


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    bench.add(parser.add_subparsers())
    options = parser.parse_args(["bench", "share", *words])
    return int(options.run(options))


def test_a_comparison_on_the_processor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, plot = tmp_path / "out.json", tmp_path / "plot.svg"
    words = ("--device", "cpu", "--engine", shlex.join(PLAYED), "--engines", "2", "--queries", "5")
    modes = ("--modes", "exclusive,fixed-4,fairlead-safe", "--limiters", "plain", "-o", "json")
    assert run(*words, *modes, "--out", str(out), "--plot", str(plot)) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert list(document) == ["command", "machine", "settings", "skipped", "solo", "rounds", "arrangements"]
    assert json.loads(out.read_text()) == document
    alone, fixed, safe = document["arrangements"]
    assert list(alone) == [
        *("mode", "limiter", "makespan_s", "pending_mean_s", "pending_worst_s", "most_at_once"),
        *("query_p50_ms", "query_p99_ms", "networks", "memory_mean_mib", "memory_max_mib"),
        *("utilisation_percent", "power_w", "energy_j", "failures", "outputs_equal", "slowdown"),
        *("makespans_s", "against_exclusive", "against_best_fixed"),
    ]
    assert [each["outputs_equal"] for each in (alone, fixed, safe)] == [True] * 3
    assert alone["most_at_once"] == 1, "each engine has every core"
    assert plot.read_text().startswith("<svg ")
    assert re.search(r"fairlead: bench share: \d+ s: exclusive, plain: \d+\.\d s, 0 failed", captured.err)
    text = str(page(document))
    assert "2 engines, 5 queries each, on the processor" in text
    assert [line.split()[:2] for line in text.splitlines() if line.startswith("exclusive ")] == [
        ["exclusive", "plain"]
    ] * 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--engines", "0"), "--engines 0: must be from 1 to 256"),
        (("--queries", "0"), "--queries 0: must be from 1"),
        (("--rounds", "0"), "--rounds 0: must be from 1 to 100"),
        (("--limit", "nan"), "--limit nan: must be from 1"),
        (("--modes", "fixed-5"), "--modes fixed-5: unknown name fixed-5"),
        (("--limiters", ","), "--limiters ,: unknown name"),
        (("--enforce", "--device", "cpu"), "--enforce --device cpu"),
        (("--out", "/nowhere/at/all"), "--out /nowhere/at/all: cannot be written"),
        (("--device", "cpu", "--runtimes", "tensorflow"), "--runtimes tensorflow: unknown name"),
    ],
)
def test_a_bad_value_gets_one_line(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(FairleadError) as error:
        run(*words)
    assert str(error.value).startswith(message)
    assert error.value.exit_code == 2
