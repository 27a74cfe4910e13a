"""What `fairlead pipeline run` and `top` show: documents, metrics, a trace, a line, a live graph."""

import json
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.examples import Run
from tests.cli.foreground import LIMIT, Foreground

FILE = """pipeline: {name}
stages:
  - {{name: camera, source: numbers, options: {{{options}}}}}
  - {{name: odd, run: "tests.pipeline.stages:odd", on_error: restart}}
  - {{name: log, sink: {sink}}}
"""


def pipeline(folder: Path, name: str = "p", options: str = "rate: 50", sink: str = '"null"') -> str:
    """Write a pipeline; return its path."""
    path = folder / f"{name}.yaml"
    path.write_text(FILE.format(name=name, options=options, sink=sink))
    return str(path)


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a runtime directory that only this test uses; other tests run pipelines at the same time."""
    folder, temporary = tmp_path / "runtime", tmp_path / "temporary"
    folder.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return folder


class Runs:
    """Pipelines that run until the test ends."""

    def __init__(self) -> None:
        self.children: list[subprocess.Popen[str]] = []

    def start(self, path: str, *words: str) -> subprocess.Popen[str]:
        """Start a run that serves its metrics on any port."""
        command = [sys.executable, "-m", "fairlead", "pipeline", "run", path, "--metrics", "0", *words]
        child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.children.append(child)
        return child

    def page(self, child: subprocess.Popen[str]) -> str:
        """Return the metrics of a run, once a sink has taken a frame."""
        assert child.stderr is not None
        where = re.search(r"http://\S+", child.stderr.readline())
        assert where is not None
        until = time.monotonic() + LIMIT
        while True:
            assert time.monotonic() < until
            with urllib.request.urlopen(where[0], timeout=LIMIT) as answer:
                text: str = answer.read().decode()
            if re.search(r'frames_total{pipeline="\w+",stage="log",direction="out"} [1-9]', text):
                return text


@pytest.fixture
def runs(runtime: Path) -> Iterator[Runs]:
    """Start pipelines, and end them after the test."""
    started = Runs()
    yield started
    for child in started.children:
        child.kill()
        child.communicate()


def test_run_prints_its_counters_as_a_document(run: Run, tmp_path: Path, runtime: Path) -> None:
    path = pipeline(tmp_path, options="count: 9")
    trace = tmp_path / "t.jsonl"
    code, out, err = run("pipeline", "run", path, "-o", "json", "--trace", str(trace), "--trace-every", "4")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert [stage["out"] for stage in document["stages"]] == [9, 4, 4]
    assert document["edges"][0]["taken"] == 9
    assert document["fused"] == []
    assert len(trace.read_text().splitlines()) > 0
    assert [path.name for path in (runtime / "fairlead-pipelines").iterdir()] == []


@pytest.mark.parametrize(
    ("words", "line", "hint"),
    [
        (["-o", "json"], "-o json: sink log writes to the standard output as well", "sink: jsonl"),
        (["--trace-every", "0"], "--trace-every 0: write a number from 1 on", ""),
        (["--metrics", "here"], "--metrics here: 'here' is not an address", "127.0.0.1:19811"),
        (["--trace", "none/t"], "--trace none/t: No such file or directory", "can be written"),
    ],
)
def test_options_that_cannot_be_followed_are_refused(
    run: Run, tmp_path: Path, words: list[str], line: str, hint: str
) -> None:
    code, out, err = run("pipeline", "run", pipeline(tmp_path, sink="stdout"), *words)
    assert (code, out) == (2, "")
    assert line in err
    assert hint in err


def test_metrics_of_a_run_and_its_status(run: Run, runs: Runs, tmp_path: Path) -> None:
    path = pipeline(tmp_path)
    child = runs.start(path, "-q")
    names = {family.name for family in text_string_to_metric_families(runs.page(child))}
    assert {"fairlead_pipeline_stage_process_seconds", "fairlead_pipeline_edge_age_seconds"} <= names
    for name in ("", path, "p", str(child.pid)):
        code, out, _ = run("pipeline", "top", *([name] if name else []), "-o", "json")
        assert code == 0
        assert json.loads(out)["pid"] == child.pid
    assert "camera->" not in run("pipeline", "top", "--once")[1]
    assert "  -> odd  " in run("pipeline", "top", "--once")[1]
    code, _, err = run("pipeline", "top", "other")
    assert code == 2
    assert f"running: p ({child.pid})" in err


def test_several_runs_are_listed_and_a_killed_one_is_gone(run: Run, runs: Runs, tmp_path: Path) -> None:
    first, second = (runs.start(pipeline(tmp_path, name)) for name in ("one", "two"))
    for child in (first, second):
        runs.page(child)
    code, out, _ = run("pipeline", "top")
    assert code == 0
    assert {line.split()[0] for line in out.splitlines()} == {"PIPELINE", "one", "two"}
    code, _, err = run("pipeline", "top", "-o", "json")
    assert code == 2
    assert str(first.pid) in err
    first.kill()
    first.wait()
    assert json.loads(run("pipeline", "top", "-o", "json")[1])["pipeline"] == "two"
    second.send_signal(signal.SIGTERM)
    assert second.wait(60) == 0
    code, _, err = run("pipeline", "top")
    assert code == 2
    assert "no pipeline of yours is running" in err


def test_top_on_a_terminal_until_the_run_ends(runs: Runs, tmp_path: Path) -> None:
    child = runs.start(pipeline(tmp_path))
    runs.page(child)
    top = Foreground(["pipeline", "top", "--delay", "500ms"], {})
    try:
        top.shows("q quit  s sort")
        assert top.screen().text()[0].startswith("pipeline top  p ")
        top.press(b"h")
        top.shows("pipeline top: keys")
        top.press(b"xs")
        top.shows("by busy")
        for rows, columns in ((10, 40), (1, 1), (24, 80)):
            top.resized(rows, columns)
        top.shows("-> odd")
        child.send_signal(signal.SIGTERM)
        assert top.end() == 0
        assert "p: the run has ended" in top.written
    finally:
        top.close()


def test_run_on_a_terminal_updates_one_line(tmp_path: Path, runtime: Path) -> None:
    shown = Foreground(["pipeline", "run", pipeline(tmp_path)], {})
    try:
        shown.read_until(lambda: re.search(r"p: [1-9]\d* frames, [1-9][\d.]*/s", shown.written))
        shown.process.send_signal(signal.SIGTERM)
        assert shown.end() == 0
        assert "\r\x1b[Kfairlead: draining" in shown.written, "the line makes room for messages"
    finally:
        shown.close()
