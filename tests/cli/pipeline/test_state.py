"""`fairlead pipeline run --state DIR [--resume]`, as a user calls it."""

from pathlib import Path

import pytest

from fairlead.pipeline import Pipeline, call, sink, source
from fairlead.pipeline.state.snapshot import NUMBERS_APART
from tests.cli.examples import Run
from tests.pipeline.pipelines import lines
from tests.pipeline.resumed import counted
from tests.pipeline.stages import number

FAILING = """
pipeline: failing
stages:
  - {name: camera, source: numbers, options: {count: 40}}
  - {name: check, run: "stage.py:check"}
  - {name: log, sink: jsonl, options: {path: out.jsonl}}
"""
CODE = """
def check(image):
    if image.flat[0] == 20:
        raise ValueError("twenty")
    return {"n": int(image.flat[0])}
"""


def test_a_failed_run_goes_on_with_the_corrected_stage(run: Run, tmp_path: Path) -> None:
    file, state = tmp_path / "p.yaml", tmp_path / "state"
    words = ("pipeline", "run", "-q", str(file), "--state", str(state))
    file.write_text(FAILING)
    (tmp_path / "stage.py").write_text(CODE)
    code, _, err = run(*words)
    assert code == 1
    assert "--resume goes on" in err
    code, _, err = run(*words)
    assert (code, err.splitlines()[0]) == (
        2,
        f"fairlead: {state} holds the progress of a run that has not ended",
    )
    file.write_text(FAILING.replace("count: 40", "count: 50"))
    code, _, err = run(*words, "--resume")
    assert code == 2
    assert "stage camera has changed since the run" in err
    file.write_text(FAILING)
    # Of another length: Python takes a module of the same second and size for the one that it has compiled.
    (tmp_path / "stage.py").write_text(CODE.replace("== 20", "== 1000"))
    code, _, err = run(*words, "--resume")
    assert code == 0, err
    assert "goes on: camera with frame 19" in err
    assert [line["value"]["n"] for line in lines(tmp_path)] == [*range(40)]
    code, _, err = run(*words, "--resume")
    assert (code, err) == (0, f"fairlead: {state}: this run is done; there is nothing to go on with\n")
    assert run(*words)[0] == 0, "a run that is done can be begun again"


LIVE = """
pipeline: live
stages:
  - {name: camera, source: generator, options: {function: "stage.py:camera"}}
  - {name: count, run: "stage.py:Count"}
  - {name: log, sink: jsonl, options: {path: out.jsonl}}
"""
LIVE_CODE = """
def camera():
    yield from ({} for _ in range(50))

class Count:
    def open(self, state):
        self.count = state or 0

    def process(self, record):
        self.count += 1
        if self.count == 41:
            raise ValueError("forty-one")
        return {"count": self.count}

    def checkpoint(self):
        return self.count
"""


def test_a_source_that_cannot_be_read_again_goes_on_with_new_frames_and_the_last_states(
    run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "p.yaml"
    words = ("pipeline", "run", "-q", str(file), "--state", str(tmp_path / "state"))
    file.write_text(LIVE)
    (tmp_path / "stage.py").write_text(LIVE_CODE)
    assert run(*words)[0] == 1
    assert [(line["sequence"], line["value"]["count"]) for line in lines(tmp_path)] == [
        (number, number + 1) for number in range(40)
    ]
    (tmp_path / "stage.py").write_text(LIVE_CODE.replace("== 41", "== 0"))
    code, _, err = run(*words, "--resume")
    assert code == 0, err
    assert "new frames and the last states: camera cannot be read again" in err
    assert [(line["sequence"], line["value"]["count"]) for line in lines(tmp_path)[40:]] == [
        (NUMBERS_APART + 41 + number, 33 + number) for number in range(50)
    ]


def test_the_same_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    chain = source("camera", "numbers", count=9) >> call(number) >> sink("log", "jsonl", path="out.jsonl")
    made = Pipeline("kept", chain)
    with pytest.raises(ValueError, match="resume needs state"):
        made.run(resume=True)
    assert made.run("state")["stages"][-1]["out"] == 9
    assert made.run("state", resume=True) == {}
    assert len(lines(tmp_path)) == 9


def test_a_folder_that_cannot_be_used_is_named(run: Run, tmp_path: Path) -> None:
    file, state = tmp_path / "p.yaml", tmp_path / "state"
    file.write_text(counted(tmp_path))
    words = ("pipeline", "run", str(file))
    assert "--resume needs --state" in run(*words, "--resume")[2]
    code, _, err = run(*words, "--state", str(state), "--resume")
    assert code == 2
    assert f"{state} does not exist: there is no run to go on with" in err
    state.write_text("")
    assert "Not a directory" in run(*words, "--state", str(state), "--resume")[2]
    state.unlink()
    state.mkdir()
    (state / "progress.json").write_text('{"version":1,')
    assert "cannot be read, or is damaged" in run(*words, "--state", str(state), "--resume")[2]
    (state / "progress.json").write_text('{"version":2}')
    assert "pipeline-progress format 2" in run(*words, "--state", str(state))[2]
