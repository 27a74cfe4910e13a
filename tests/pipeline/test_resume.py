"""A run goes on after its coordinator was killed: the results equal those of a run without a crash."""

import os
from pathlib import Path

from tests.pipeline.pipelines import lines
from tests.pipeline.resumed import FRAMES, LAST, counted, expected, finish, kept_start, kill_when, start_run


def test_the_results_are_those_of_a_run_that_was_not_killed(tmp_path: Path) -> None:
    file, out = tmp_path / "p.yaml", tmp_path / "out.jsonl"
    file.write_text(counted(tmp_path))
    out.write_text('{"stream": 0, "sequence": 299, "value": "of an earlier run"}\n')
    for gate, words in ((100, ()), (200, ("--resume",))):
        assert kill_when(start_run(file, *words), lambda: kept_start(tmp_path) == LAST[gate])  # noqa: B023
        (tmp_path / str(gate)).touch()
    text = finish(start_run(file, "--resume"))
    assert f"goes on: camera with frame {LAST[200]}\n" in text
    assert f"camera: {FRAMES - LAST[200]} frames; log: " in text, "only what may be missing was read again"
    assert [line["sequence"] for line in lines(tmp_path)] == [*range(FRAMES)]
    assert [line["value"] for line in lines(tmp_path)] == expected()
    assert not [name for name in os.listdir("/dev/shm") if "fairlead" in name]
    assert os.listdir(tmp_path / "state") == ["progress.json"]
