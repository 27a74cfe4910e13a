"""Interleaved pairs: the order alternates, the median ratio decides, and too few pairs do not pass."""

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from bench import pairs
from bench.pairs import AFTER, HOUSE, Checkout, Costs, Pair

BEFORE = Checkout(HOUSE)
"""Another name for the same sources."""


def side_name(side: Checkout) -> str:
    """Return the name of a side of a pair."""
    return "after" if side is AFTER else "before"


def test_the_checkouts_and_their_order_alternate() -> None:
    sides: list[str] = []

    def measure(side: Checkout) -> Costs:
        sides.append(side_name(side))
        own = {"only before": 1.0} if side is BEFORE else {"only after": 1.0}
        return {"job": 1.0 + len(sides), **own}

    found = pairs.measure_pairs(BEFORE, 3, measure)
    assert sides == ["before", "after", "after", "before", "before", "after"]
    assert found == [Pair("job", 2.0, 3.0), Pair("job", 5.0, 4.0), Pair("job", 6.0, 7.0)]


@pytest.mark.parametrize(
    ("afters", "ratio", "status"),
    [
        ((1.0, 1.05, 1.05, 1.3, 0.9), "1.050", 0),
        ((1.0, 1.06, 1.06, 1.06, 0.9), "1.060", 1),
        ((0.5, 0.5, 0.5, 0.5), "0.500", 1),
        ((), "", 1),
    ],
    ids=["at the bar", "above the bar", "too few pairs", "nothing measured"],
)
def test_the_median_ratio_of_at_least_five_pairs_decides(
    afters: tuple[float, ...], ratio: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pairs.report((Pair("job", 1.0, after) for after in afters), BEFORE, "engine") == status
    printed = capsys.readouterr().out
    assert pairs.machine() in printed
    assert "Repeat with: " in printed
    if afters:
        row = next(line for line in printed.splitlines() if line.startswith("job "))
        assert ratio in row.split()
        assert f"{min(afters):.3f}-{max(afters):.3f}" in row.split()


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ((), "make bench-client"),
        (("--peers", ".venv/bench", "--short"), "make bench-client SHORT=1"),
        (("--short", "--before", "../a b"), "make bench-client SHORT=1 BEFORE='../a b'"),
        (("--short", "--pairs", "8"), "python -m bench.client --short --pairs 8"),
    ],
)
def test_the_command_that_repeats_it(words: tuple[str, ...], command: str) -> None:
    assert pairs.repeat("client", words) == command


def test_a_folder_without_sources_is_no_checkout(tmp_path: Path) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="git worktree add"):
        pairs.checkout(str(tmp_path))


def test_a_worker_imports_the_sources_of_its_checkout(tmp_path: Path) -> None:
    package, bench = tmp_path / "src" / "fairlead", tmp_path / "bench"
    for folder in (package, bench):
        folder.mkdir(parents=True)
    (package / "__init__.py").write_text("NAME = 'the other'\n")
    (bench / "own.py").write_text(
        "import json, sys, fairlead\n"
        "print('more')\n"
        "print(json.dumps({'name': fairlead.NAME, 'words': sys.argv[1:], **json.load(sys.stdin)}))\n"
    )
    found = pairs.checkout(str(tmp_path)).work("own", ("word",), {"pods": 3})
    assert found == {"name": "the other", "words": ["word"], "pods": 3}


def test_the_engine_is_compared_with_a_checkout() -> None:
    tiny = {"nodes": 20, "decisions": 20, "gang": 5, "gangs": 1, "full": 5, "changes": 2}
    sizes = (word for name, size in tiny.items() for word in (f"--{name}", str(size)))
    command = ("-m", "bench.engine", "--before", ".", "--pairs", "1", *sizes)
    done = subprocess.run([sys.executable, *command], cwd=HOUSE, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    rows = [line for line in done.stdout.splitlines() if "fewer than 5 pairs" in line]
    assert [row.split("  ")[0] for row in rows] == [
        "decision",
        "decision, all unlike",
        "gang, placed",
        "gang, refused",
        "smallest change",
    ]
