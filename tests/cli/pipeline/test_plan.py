"""`fairlead pipeline plan`, as a user calls it."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.examples import EXAMPLES, Run
from tests.pipeline.plan.problems import link, problem, stage

CUT = str(EXAMPLES / "pipeline/cut.json")
PAGE = EXAMPLES.parent / "docs/reference/pipeline-plan.md"


def written(folder: Path, document: Any) -> str:
    """Return the path of a problem in a file."""
    file = folder / "problem.json"
    file.write_text(json.dumps(document))
    return str(file)


def test_the_answer_has_the_fields_of_the_contract(run: Run) -> None:
    code, out, err = run("pipeline", "plan", "--problem", CUT, "-o", "json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "assignment": ["edge", "edge", "server", "server"],
        "period_s": pytest.approx(0.0387),
        "latency_s": pytest.approx(0.0811),
        "bottleneck": "server",
    }
    assert list(json.loads(out)) == ["assignment", "period_s", "latency_s", "bottleneck"]
    assert 'bottleneck: "server"' in run("pipeline", "plan", "--problem", CUT, "-o", "yaml")[1]


def test_a_link_is_a_bottleneck_by_its_nodes(run: Run, tmp_path: Path) -> None:
    path = written(tmp_path, problem([stage("s", 9000, b=1.0)], [link("a", "b")]))
    document = json.loads(run("pipeline", "plan", "--problem", path, "-o", "json")[1])
    assert document == {"assignment": ["b"], "period_s": 9.0, "latency_s": 10.0, "bottleneck": "a->b"}


def test_every_solver_answers_the_same(run: Run) -> None:
    pytest.importorskip("highspy", reason="HiGHS, the extra pipeline-plan, is not installed")
    answers = [
        json.loads(run("pipeline", "plan", "--problem", CUT, "-o", "json", "--solver", solver)[1])
        for solver in ("auto", "dp", "milp")
    ]
    assert answers[0] == answers[1] == answers[2]


def test_without_highs_the_milp_names_its_extra(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    code, out, err = run("pipeline", "plan", "--problem", CUT, "--solver", "milp")
    assert (code, out) == (2, "")
    assert err == (
        "fairlead: the MILP needs HiGHS, which is not installed\n  pip install 'fairlead[pipeline-plan]'\n"
    )


def test_a_dash_reads_the_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(Path(CUT).read_bytes())

    monkeypatch.setattr(sys, "stdin", Stdin)
    code, out, _ = run("pipeline", "plan", "--problem", "-", "-o", "json")
    assert code == 0
    assert json.loads(out)["bottleneck"] == "server"
    code, _, err = run("pipeline", "plan", "--problem", "-")  # nothing is left of it
    assert code == 2
    assert err.startswith("fairlead: standard input: not JSON: ")


def test_no_plan_ends_with_1_and_the_reason_on_the_standard_error(run: Run, tmp_path: Path) -> None:
    document = json.loads(Path(CUT).read_text())
    path = written(tmp_path, {**document, "max_latency_s": 0.05})
    for output in ("table", "json", "yaml"):
        code, out, err = run("pipeline", "plan", "--problem", path, "-o", output)
        assert (code, out) == (1, "")
        assert err == (
            f"fairlead: {path}: no plan keeps max_latency_s 0.05: the smallest possible latency is 0.0504 s "
            "(server: decode, letterbox, detect, count)\n  write max_latency_s 0.0504 or more\n"
        )
    code, out, err = run("pipeline", "plan", "--problem", path, "--explore", "-o", "json")
    assert code == 1
    assert json.loads(out)["plan"] is None
    assert "no plan keeps" in err


def test_bad_input_ends_with_2(run: Run, tmp_path: Path) -> None:
    path = written(tmp_path, problem([stage("s", a=-1.0)], []))
    code, out, err = run("pipeline", "plan", "--problem", path)
    assert (code, out) == (2, "")
    assert err.startswith(
        f"fairlead: {path}: stages[0].seconds.a: -1.0 is not a possible value\n  write 0 or"
    )
    for name in (str(tmp_path), str(tmp_path / "none"), "/dev/zero"):
        code, _, err = run("pipeline", "plan", "--problem", name)
        assert code == 2
        assert "name a JSON file" in err


def test_too_many_nodes_for_the_exact_search(run: Run, tmp_path: Path) -> None:
    names = [f"n{index}" for index in range(20)]
    document = {
        "source": "n0",
        "nodes": [{"name": name, "memory_bytes": 1} for name in names],
        "links": [link(one, two) for one in names for two in names],
        "stages": [
            stage(f"s{index}", **{name: 1.0 + at / 7 for at, name in enumerate(names)}) for index in range(20)
        ],
        "max_latency_s": None,
    }
    code, _, err = run("pipeline", "plan", "--problem", written(tmp_path, document), "--solver", "dp")
    assert code == 2
    assert "20 nodes are too many for the exact search" in err


def test_explore_shows_every_prefix_cut(run: Run) -> None:
    code, out, _ = run("pipeline", "plan", "--problem", CUT, "--explore")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:6]] == ["SSSS", "ESSS", "EESS", "EEES", "EEEE"]
    assert out.count("(best cut)") == 1
    assert "EESS  server  38.7 ms  81.1 ms  520,000    0.39  server (best cut)" in out
    document = json.loads(run("pipeline", "plan", "--problem", CUT, "--explore", "-o", "json")[1])
    assert list(document) == ["source", "cuts", "plan"]
    cut = document["cuts"][1]
    assert cut["hops"] == [
        {
            "from": "edge",
            "to": "server",
            "stage": "letterbox",
            "bytes": 2764800,
            "transfer_s": pytest.approx(0.110592),
            "delay_s": 0.002,
        }
    ]
    assert (cut["cut"], cut["other"], cut["possible"], cut["reason"]) == ("ESSS", "server", True, None)
    assert cut["ccr"] == pytest.approx(0.112592 / 0.0472)


def test_the_page_shows_the_true_output(run: Run) -> None:
    page = PAGE.read_text()
    for words in (("-o", "json"), (), ("--explore",)):
        command = " ".join(("$ fairlead pipeline plan --problem cut.json", *words))
        _, out, _ = run("pipeline", "plan", "--problem", CUT, *words)
        assert f"{command}\n{out}" in page
