"""The coordinator killed at random moments: the file of the sink is that of a run without a crash."""

import os
import random
import time
from pathlib import Path

import pytest

from tests.pipeline.pipelines import STAGES
from tests.pipeline.resumed import finish, kill_when, start_run

LONG = os.environ.get("FAIRLEAD_CHAOS") == "long"
SEEDS = range(50)
KILLS = 4
FRAMES = 500
TEXT = f"""
pipeline: chaos
fuse: false
stages:
  - {{name: camera, source: numbers, options: {{count: {FRAMES}, rate: 250}}, on_error: restart}}
  - {{name: twice, run: "{STAGES}:RunningTwice", on_error: restart}}
  - {{name: log, sink: jsonl, options: {{path: out.jsonl}}, on_error: restart}}
"""


@pytest.mark.skipif(
    not LONG, reason="some minutes: FAIRLEAD_CHAOS=long; tests/pipeline/test_resume.py is short"
)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_file_is_that_of_a_run_without_a_crash(tmp_path: Path, seed: int) -> None:
    """Killed after a random time, also before any stage is open and while the progress is written."""
    choose = random.Random(seed)
    file, state = tmp_path / "p.yaml", tmp_path / "state"
    file.write_text(TEXT)
    state.mkdir()
    kills = 0
    for _ in range(KILLS):
        until = time.monotonic() + choose.uniform(0.1, 2.5)
        kills += kill_when(start_run(file, "--resume"), lambda: time.monotonic() > until)  # noqa: B023
    finish(start_run(file, "--resume"))
    assert kills
    assert (tmp_path / "out.jsonl").read_bytes() == expected_bytes()
    assert os.listdir(state) == ["progress.json"]
    assert not [name for name in os.listdir("/dev/shm") if "fairlead" in name]


def expected_bytes() -> bytes:
    """Return the file of a run without a crash: two records of each frame, with the sum of all so far."""
    total, lines = 0, []
    for frame in range(FRAMES):
        total += frame % 251
        for part in ("first", "second"):
            lines.append(f'{{"stream": 0, "sequence": {frame}, "value": {{"{part}": {total}}}}}\n')
    return "".join(lines).encode()
