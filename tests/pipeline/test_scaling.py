"""Runs whose replicas follow the load: each frame once and in order, up and down again."""

import os
import signal
import socket
from pathlib import Path
from typing import Any

from fairlead.pipeline.check import require_sound
from fairlead.pipeline.driver import PipelineDriver
from fairlead.pipeline.fuse import plan_workers
from fairlead.pipeline.replan.scaling import RunScaling
from fairlead.pipeline.yaml_file import parse_pipeline
from tests.pipeline.pipelines import STAGES, lines, sequences

CHAIN = """
pipeline: ebbs
stages:
  - name: camera
    source: generator
    options: {function: "$S:ebbs", arguments: {folder: "$F"}}
    on_error: restart
  - name: slow
    run: "$S:slow"
    replicas: {min: 1, max: 2, up_after: 500ms, down_after: 500ms}
    on_error: restart
  - {name: number, run: "$S:number", on_error: restart}
  - {name: log, sink: jsonl, options: {path: out.jsonl}, on_error: restart}
"""


def test_replicas_follow_the_load_and_no_frame_is_lost_or_repeated(tmp_path: Path) -> None:
    """One becomes two, of which one is killed; with few frames they become one again."""
    steps: list[str] = []
    stop, stopped = socket.socketpair()

    def watch(status: dict[str, Any]) -> None:
        moves, stage = status["moves"], status["stages"][1]
        if not steps and len(moves) == 1 and status["open"]:
            os.kill(status["processes"][stage["workers"][1]], signal.SIGKILL)
            steps.append("killed")
        elif steps == ["killed"] and stage["restarts"] and status["open"]:
            (tmp_path / "calm").touch()
            steps.append("calm")
        elif len(moves) == 2 and steps[-1] == "calm":
            (tmp_path / "end").touch()
            steps.append("end")

    text = CHAIN.replace("$S", STAGES).replace("$F", str(tmp_path))
    spec = parse_pipeline(text.encode(), str(tmp_path / "p.yaml"))
    said: list[str] = []
    with stop, stopped:
        scaling = RunScaling(lambda stage, status: None, pause=0.5)  # however few cores this machine has
        driver = PipelineDriver(plan_workers(require_sound(spec)), said.append, watch)
        driver.scaling = scaling
        status = driver.run(stopped)
    assert steps == ["killed", "calm", "end"]
    written = lines(tmp_path)
    assert sequences(tmp_path) == list(range(len(written)))
    assert [line["value"]["n"] for line in written] == [number % 251 for number in range(len(written))]
    assert status["stages"][0]["out"] >= len(written) > 100
    up, down = status["moves"]
    assert [(each["name"], each["replicas"]) for each in up["stages"]] == [("slow", [1, 2])]
    assert [(each["name"], each["replicas"]) for each in down["stages"]] == [("slow", [2, 1])]
    assert "frames" in up["reason"]
    assert down["reason"].startswith("1 replica would have been enough for ")
    assert (up["replayed"], down["replayed"]) == ("", "")
    (scaled,) = status["scaling"]
    assert scaled == {
        "stage": "slow",
        "replicas": 1,
        "min": 1,
        "max": 2,
        "changes": 2,
        "last": {"from": 2, "to": 1, "reason": down["reason"]},
        "held_by": "",
    }
    assert any(line.startswith("moved slow from 1 to 2 replicas at frame ") for line in said)
