"""Workers killed at random moments: the results equal those of a run without a crash; nothing is left."""

import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.pipelines import lines, run

SEEDS = range(12 if os.environ.get("FAIRLEAD_CHAOS") == "long" else 1)
FRAMES = 400
TEXT = f"""
pipeline: chaos
fuse: false
stages:
  - {{name: camera, source: numbers, options: {{count: {FRAMES}, rate: 200}}, on_error: restart}}
  - {{name: uneven, run: "$S:uneven", replicas: 2, on_error: restart}}
  - {{name: count, run: "$S:RunningCount", on_error: restart}}
  - {{name: log, sink: jsonl, options: {{path: out.jsonl}}, on_error: restart}}
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_repeated_or_counted_twice(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    killed: list[str] = []

    def kill_some(status: dict[str, Any]) -> None:
        """Kill a worker at one of three reports, at most nine times."""
        if len(killed) < 9 and status["stages"][-1]["out"] and choose.random() < 0.3:
            name, pid = choose.choice(sorted(status["processes"].items()))
            os.kill(pid, signal.SIGKILL)
            killed.append(name)

    run(TEXT, tmp_path, kill_some)
    assert killed
    sums = [sum(number % 251 for number in range(last + 1)) for last in range(FRAMES)]
    records = [{"count": last + 1, "sum": sums[last]} for last in range(FRAMES)]
    assert [line["sequence"] for line in lines(tmp_path)] == [*range(FRAMES)]
    assert [line["value"] for line in lines(tmp_path)] == records
    slots = [
        os.readlink(f"/proc/self/fd/{number}")
        for number in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{number}")
    ]
    assert not [link for link in slots if "fairlead-" in link]
