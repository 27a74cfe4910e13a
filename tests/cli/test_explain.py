"""`fairlead explain`: what a decision document says, one pod of it or all."""

import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
import yaml

from tests.cli.runs import CLUSTER, WORKLOADS, Run


def test_a_decision_is_explained(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "decision.json"
    asked = ("schedule", "--cluster", CLUSTER, "--workloads", WORKLOADS)
    code, out, _ = run(*asked, "--explain", "-o", "json")
    assert code == 1
    file.write_text(out)
    code, brief, _ = run("explain", "embedder", "--decision", str(file))
    assert code == 1
    assert "default/embedder: 0 of 6 accelerators can take embedder" in brief
    assert "[accelerator-memory]" in brief
    assert "WHY NOT" not in brief
    code, long, _ = run("explain", "embedder", "-v", "--decision", str(file))
    assert "WHY NOT" in long
    code, placed, _ = run("explain", "trainer", "--decision", str(file))
    assert (code, placed) == (0, "default/trainer: trainer goes to server (a100-0, whole)\n")
    code, document, _ = run("explain", "--decision", str(file), "-o", "yaml")
    assert len(yaml.safe_load(document)) == 6
    _, told, _ = run(*asked, "--explain")
    assert long.strip() in told


def test_a_decision_is_read_from_the_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    _, out, _ = run("schedule", "--cluster", CLUSTER, "--workloads", WORKLOADS, "-o", "json")
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(out.encode())))
    assert run("explain", "reporter", "--decision", "-")[0] == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--decision", CLUSTER), "not a decision"),
        (("--decision", "none.json"), "none.json: No such file"),
    ],
)
def test_what_is_refused(run: Run, words: tuple[str, ...], says: str) -> None:
    code, out, err = run("explain", *words)
    assert (code, out) == (2, "")
    assert err.startswith("fairlead: ")
    assert says in err
