"""`fairlead schedule`: a table for people, a document for programs, exit codes for both."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.cli.main import main

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
CLUSTER = str(EXAMPLES / "cluster.yaml")
WORKLOADS = str(EXAMPLES / "workloads.yaml")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command, as a user without profiles, and return its exit code and what it printed."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    def one(*words: str) -> tuple[int, str, str]:
        code = main(words)
        out, err = capsys.readouterr()
        return code, out, err

    return one


def test_the_table(run: Run) -> None:
    code, out, _ = run("schedule", "--cluster", CLUSTER, "--workloads", WORKLOADS)
    assert code == 1
    head, *rows = out.splitlines()
    assert head.split() == ["POD", "NODE", "DEVICES", "SHARE", "PREDICTED"]
    assert any(row.split()[:5] == ["trainer", "server", "a100-0", "whole", "-"] for row in rows)
    assert "refused: 0 of 6 accelerators can take embedder: " in out


def test_all_placed_is_zero(run: Run, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(
        "{name: small, gpu-memory: 1GiB, expected: {t4: {latency: 4ms}, a100: {latency: 1ms}}}"
    )
    code, out, _ = run(
        "schedule", "--cluster", CLUSTER, "--workloads", str(tmp_path / "w.yaml"), "--policy", "fastest"
    )
    assert code == 0
    assert out.splitlines()[1].split() == ["small", "server", "a100-0", "1.0", "GiB", "1", "ms"]


def test_replicas_are_refused_in_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("workloads: [{name: big, replicas: 3, gpu-memory: 900GiB}]")
    _, out, _ = run("schedule", "--cluster", CLUSTER, "--workloads", str(tmp_path / "w.yaml"))
    assert out.count("refused:") == 1
    assert "can take big-0 and 2 more like it: " in out


def test_preemption_can_be_forbidden(run: Run, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(
        "workloads: [{name: urgent, models: [t4], gpu-memory: 8GiB, priority: 9}]"
    )
    asked = ("schedule", "--cluster", CLUSTER, "--workloads", str(tmp_path / "w.yaml"))
    code, out, _ = run(*asked)
    assert code == 0
    assert "default/tracker must go for urgent" in out
    assert run(*asked, "--no-preemption")[0] == 1


def test_a_snapshot_that_nobody_waits_in(run: Run, tmp_path: Path) -> None:
    document = {"format": "fairlead-snapshot", "version": 1, "nodes": []}
    (tmp_path / "s.json").write_text(json.dumps(document))
    assert run("schedule", "--cluster", str(tmp_path / "s.json")) == (0, "nothing waits for a place\n", "")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("schedule", "--cluster", CLUSTER, "--workloads", "none.yaml"), "none.yaml: No such file"),
        (("schedule", "--cluster", os.sep, "--workloads", WORKLOADS), "/: not a file"),
        (
            ("schedule", "--cluster", CLUSTER, "--workloads", WORKLOADS, "--policy", "fairlaed"),
            "unknown policy 'fairlaed'",
        ),
        (("schedule", "--cluster", "-", "--workloads", "-"), "the standard input can be read once"),
        (("schedule", "--cluster", WORKLOADS, "--workloads", WORKLOADS), "neither a snapshot"),
    ],
)
def test_what_is_refused(run: Run, words: tuple[str, ...], says: str) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err.startswith("fairlead: ")
    assert says in err
