"""State for each stream: a crash changes nothing in the results, whichever worker it hits."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from fairlead.errors import PipelineError
from fairlead.pipeline.checkpoints import CheckpointStore
from fairlead.pipeline.work.stateful import decode_state, encode_state
from tests.pipeline.pipelines import lines, plan, run

FRAMES = 240
TWO_STREAMS = f"""
pipeline: state
fuse: false
stages:
  - {{name: one, source: numbers, options: {{count: {FRAMES}, rate: 150}}, on_error: restart}}
  - {{name: two, source: numbers, options: {{count: {FRAMES}, rate: 150}}, on_error: restart}}
  - {{name: count-one, run: "$S:RunningCount", on_error: restart}}
  - {{name: count-two, run: "$S:RunningCount", on_error: restart}}
  - {{name: log-one, sink: jsonl, options: {{path: one.jsonl}}, on_error: restart}}
  - {{name: log-two, sink: jsonl, options: {{path: two.jsonl}}, on_error: restart}}
edges:
  - {{from: one, to: count-one}}
  - {{from: count-one, to: log-one}}
  - {{from: two, to: count-two}}
  - {{from: count-two, to: log-two}}
"""


def expected() -> list[dict[str, int]]:
    """Return the records of a run without a crash."""
    sums = [sum(number % 251 for number in range(last + 1)) for last in range(FRAMES)]
    return [{"count": last + 1, "sum": sums[last]} for last in range(FRAMES)]


def test_a_stage_with_state_makes_the_same_after_crashes(tmp_path: Path) -> None:
    victims = ["count-one", "log-one", "one"]
    killed: list[int] = []

    def kill_the_next(status: dict[str, Any]) -> None:
        """Kill the next worker once the sink has gone on for a while since the last one."""
        written = status["stages"][4]["out"]
        alive = len(status["processes"]) == 6
        last = killed[-1] if killed else 20
        if len(killed) < len(victims) and alive and last < written < FRAMES // 2:
            os.kill(status["processes"][victims[len(killed)]], signal.SIGKILL)
            killed.append(written)

    status = run(TWO_STREAMS, tmp_path, kill_the_next)
    assert killed
    assert sum(stage["restarts"] for stage in status["stages"]) == len(killed)
    for name in ("one.jsonl", "two.jsonl"):
        assert [line["value"] for line in lines(tmp_path, name)] == expected()
        assert [line["sequence"] for line in lines(tmp_path, name)] == [*range(FRAMES)]


def test_a_stage_with_state_has_no_replicas(tmp_path: Path) -> None:
    text = """
pipeline: state
stages:
  - {name: one, source: numbers}
  - {name: count, run: "$S:RunningCount", replicas: 2}
  - {name: log, sink: "null"}
"""
    with pytest.raises(PipelineError, match="keeps state for each stream"):
        plan(text, tmp_path)
    made = plan(text.replace(", replicas: 2", ""), tmp_path)
    assert made.spec.stage("count").is_stateful


@pytest.mark.parametrize("state", [None, [1, 2], {"a": "b"}, b"", b"\0\1"])
def test_a_state_is_bytes_or_json(state: Any) -> None:
    assert decode_state(encode_state(state)) == state


def test_a_store_keeps_what_a_replay_can_need() -> None:
    store = CheckpointStore()
    key = ("worker", 0, 3)
    for label in (16, 32, 48, 64):
        store.add(key, label, b"x", acknowledged=40)
    assert store.labels() == {("worker", 0): {3: frozenset({32, 48, 64})}}
    assert store.at("worker", {3: 32}, latest=False) == [(0, 3, b"x")]
    assert store.at("worker", {3: 0}, latest=False) == []
    store.drop_after("worker", {3: 48})
    assert store.labels()["worker", 0][3] == {32, 48}
