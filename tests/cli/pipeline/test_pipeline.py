"""`fairlead pipeline check` and `run`, as a user calls them."""

import json
import signal
import subprocess
import sys
from pathlib import Path

from tests.cli.examples import Run

FILE = """pipeline: p
stages:
  - {name: camera, source: numbers, options: {count: 9}}
  - {name: slow, run: "tests.pipeline.stages:slow", on_error: restart}
  - {name: log, sink: jsonl, options: {path: out.jsonl}}
"""


def test_check_shows_processes_and_edges(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(FILE)
    code, out, err = run("pipeline", "check", str(file))
    assert (code, err) == (0, "")
    assert "slow    function  slow     Image" in out
    assert out.endswith("p: 3 stages in 3 processes; no problem found\n")
    assert not (tmp_path / "out.jsonl").exists()
    document = json.loads(run("pipeline", "check", str(file), "-o", "json")[1])
    assert list(document) == ["pipeline", "problems", "stages", "edges"]
    assert [each["on_error"] for each in document["stages"]] == ["stop", "restart", "stop"]


def test_check_prints_every_problem_with_its_line(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(FILE.replace("numbers", "numbrs").replace("stages:slow", "stages:slwo"))
    code, out, _ = run("pipeline", "check", str(file))
    assert code == 2
    assert f"{file}:3: stage camera: no source 'numbrs'\n  did you mean numbers?" in out
    assert f"{file}:4: stage slow: tests.pipeline.stages has no function or class 'slwo'" in out
    assert out.endswith("2 problems found\n")
    code, _, err = run("pipeline", "run", str(file))
    assert code == 2
    assert "and 1 more: fairlead pipeline check" in err
    assert run("pipeline", "check", str(tmp_path / "none.yaml"))[0] == 2


def test_run_prints_a_summary_and_fails_with_one_line(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(FILE)
    code, out, err = run("pipeline", "run", str(file))
    assert (code, out) == (0, "")
    assert "camera->slow  block   9     9      0\n" in err
    assert err.rstrip().endswith("camera: 9 frames; log: 9 frames")
    file.write_text(FILE.replace("stages:slow", "stages:raises_at_seven").replace("restart", "stop"))
    code, _, err = run("pipeline", "run", "-q", str(file))
    assert code == 1
    first, second = err.splitlines()
    assert first == f"fairlead: {file}: stage slow, frame 7: raised ValueError: seven is not allowed"
    assert "on_error" in second


def test_sigterm_lets_frames_on_their_way_finish(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        FILE.replace("count: 9", "rate: 50").replace("jsonl, options: {path: out.jsonl}", "stdout")
    )
    child = subprocess.Popen(
        [sys.executable, "-m", "fairlead", "pipeline", "run", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        assert child.stderr is not None
        first = child.stdout.readline()
        child.send_signal(signal.SIGTERM)
        # Not `communicate`: it leaves out the lines that came together with the first one.
        out, err = first + child.stdout.read(), child.stderr.read()
    numbers = [json.loads(line)["sequence"] for line in out.splitlines()]
    assert child.returncode == 0, err
    assert numbers == list(range(len(numbers)))
    assert f"log: {len(numbers)} frame" in err
