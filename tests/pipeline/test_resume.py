"""A run goes on after its coordinator was killed: the results equal those of a run without a crash."""

import os
from pathlib import Path

from tests.pipeline.pipelines import lines
from tests.pipeline.resumed import COUNTED, FRAMES, expected, finish, kept_start, kill_when, start_run


def test_the_results_are_those_of_a_run_that_was_not_killed(tmp_path: Path) -> None:
    file, out = tmp_path / "p.yaml", tmp_path / "out.jsonl"
    file.write_text(COUNTED)
    out.write_text('{"stream": 0, "sequence": 479, "value": "of an earlier run"}\n')
    before = set(os.listdir("/dev/shm"))
    assert kill_when(start_run(file), lambda: kept_start(tmp_path) > 0)
    first = kept_start(tmp_path)
    assert kill_when(start_run(file, "--resume"), lambda: kept_start(tmp_path) > first)
    second = kept_start(tmp_path)
    text = finish(start_run(file, "--resume"))
    assert f"goes on: camera with frame {second}\n" in text
    assert second % 16 == 0
    assert [line["sequence"] for line in lines(tmp_path)] == [*range(FRAMES)]
    assert [line["value"] for line in lines(tmp_path)] == expected(FRAMES)
    assert set(os.listdir("/dev/shm")) <= before
    assert os.listdir(tmp_path / "state") == ["progress.json"]
