"""Stages that move between hosts of the loopback while frames flow: each frame once and in order."""

import os
import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hpack")

from fairlead.pipeline.check import require_sound
from fairlead.pipeline.driver import PipelineDriver
from fairlead.pipeline.fuse import place_workers, plan_workers
from fairlead.pipeline.hosts.remote import RemoteHosts
from fairlead.pipeline.profile.facts import (
    EdgeFacts,
    LinkFacts,
    MachineFacts,
    PipelineProfile,
    StageCost,
    StageFacts,
)
from fairlead.pipeline.replan.moves import ProposedMove
from fairlead.pipeline.replan.replanner import Replanner
from fairlead.pipeline.replan.replanning import RunReplanning
from fairlead.pipeline.yaml_file import parse_pipeline
from tests.pipeline.hosts import host
from tests.pipeline.pipelines import STAGES, lines, sequences
from tests.pipeline.relay import relay

CHAIN = """
pipeline: moves
hosts:
  a: {{address: "127.0.0.1:{port}"}}
stages:
  - {{name: camera, source: numbers, options: {{count: {count}, rate: {rate}}}, on_error: restart}}
  - {{name: slow, run: "$S:slow", on_error: restart}}
  - {{name: work, run: "$S:{work}", on_error: restart}}
  - {{name: log, sink: jsonl, options: {{path: out.jsonl}}, on_error: restart}}
"""
MOVABLE = frozenset({"slow", "work"})


@dataclass
class Script:
    """A planner that proposes its moves one after another, each once frames have flowed since the last."""

    moves: list[dict[str, str]]
    frames: int = 30
    ended: list[Mapping[str, str] | None] = field(default_factory=list)
    _after: int = 0

    def propose(self, status: Mapping[str, Any], now: float) -> ProposedMove | None:
        """Return the next move."""
        written = status["stages"][-1]["out"]
        if not self.moves or written < self._after + self.frames:
            return None
        self._after = written
        return ProposedMove(self.moves.pop(0), "the script says so")

    def on_move_ended(self, nodes: Mapping[str, str] | None, now: float) -> None:
        """Keep how the move has ended."""
        self.ended.append(nodes)

    def close(self) -> None:
        """End nothing."""


def run_moves(
    text: str,
    folder: Path,
    script: Script,
    on_status: Callable[[dict[str, Any]], None] = lambda status: None,
    is_enough: Callable[[dict[str, Any]], bool] = lambda status: True,
) -> dict[str, Any]:
    """Run a chain whose stages between source and sink may move, and return its counters.

    The run is drained once every move has ended, some frames have followed, and `is_enough` says so.
    """
    spec = require_sound(parse_pipeline(text.replace("$S", STAGES).encode(), f"{folder}/p.yaml"))
    plan = plan_workers(spec, MOVABLE)
    hosts = RemoteHosts(plan, None, {}, candidates=[each.name for each in spec.hosts])
    moves, last = len(script.moves), [0]
    ours, theirs = socket.socketpair()

    def watch(status: dict[str, Any]) -> None:
        on_status(status)
        written = status["stages"][-1]["out"]
        if len(script.ended) < moves or not is_enough(status):
            last[0] = written
        elif last[0] >= 0 and written >= last[0] + 20:
            last[0] = -1
            theirs.send(b"x")

    with ours, theirs:
        return PipelineDriver(plan, print, watch, None, hosts, planner=script).run(ours)


def taken(folder: Path) -> int:
    """Return how many frames the sink has, each once and in order."""
    written = sequences(folder)
    assert written == list(range(len(written)))
    return len(written)


def test_stages_move_to_another_host_and_back(tmp_path: Path) -> None:
    script = Script([{"work": "a"}, {"slow": "a"}, {"slow": "local", "work": "local"}])
    with host(tmp_path) as other:
        text = CHAIN.format(port=other.port, count=100_000, rate=100, work="number")
        status = run_moves(text, tmp_path, script)
    frames = taken(tmp_path)
    assert script.ended == [
        {"slow": "local", "work": "a"},
        {"slow": "a", "work": "a"},
        {"slow": "local", "work": "local"},
    ]
    moves = status["moves"]
    assert [[(each["name"], each["from"], each["to"]) for each in move["stages"]] for move in moves] == [
        [("work", "local", "a")],
        [("slow", "local", "a")],
        [("slow", "a", "local"), ("work", "a", "local")],
    ]
    numbers = [move["sequence"] for move in moves]
    assert numbers == sorted(set(numbers))
    assert [move["replayed"] for move in moves] == ["", "", ""], "every old path was drained"
    assert [stage["restarts"] for stage in status["stages"]] == [0, 0, 0, 0]
    assert status["stages"][1]["in"] == frames, "no frame was computed twice"


def test_state_is_carried_to_the_new_host(tmp_path: Path) -> None:
    script = Script([{"work": "a"}, {"work": "local"}])
    with host(tmp_path) as other:
        text = CHAIN.format(port=other.port, count=100_000, rate=120, work="RunningCount")
        status = run_moves(text, tmp_path, script)
    assert len(status["moves"]) == 2
    assert [line["value"]["sum"] for line in lines(tmp_path)] == [
        sum(number % 251 for number in range(last + 1)) for last in range(taken(tmp_path))
    ]
    assert status["stages"][2]["in"] == taken(tmp_path), "no frame was computed twice"


def test_a_new_worker_that_is_killed_ends_the_move_and_the_old_one_goes_on(tmp_path: Path) -> None:
    script = Script([{"work": "a"}])
    killed: list[int] = []

    def kill(status: dict[str, Any]) -> None:
        for name, pid in status["hosts"]["a"]["processes"].items():
            if "@" in name and not killed:
                killed.append(pid)
                os.kill(pid, signal.SIGKILL)

    with host(tmp_path) as other:
        text = CHAIN.format(port=other.port, count=100_000, rate=100, work="LoadsSlowly")
        status = run_moves(text, tmp_path, script, kill)
    assert len(killed) == 1
    assert script.ended == [None]
    assert status["moves"] == []
    assert taken(tmp_path)
    assert status["stages"][2]["restarts"] == 0


def test_a_worker_that_is_killed_after_the_switch_is_replayed_on_the_new_path(tmp_path: Path) -> None:
    script = Script([{"work": "a"}])
    killed: list[int] = []

    def kill(status: dict[str, Any]) -> None:
        pid = status["hosts"]["a"]["processes"].get("work@1")
        if pid and not killed and status["stages"][2]["hosts"] == ["a"]:
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    with host(tmp_path) as other:
        text = CHAIN.format(port=other.port, count=100_000, rate=100, work="number")
        status = run_moves(text, tmp_path, script, kill, lambda status: status["stages"][2]["restarts"] > 0)
    assert len(killed) == 1
    assert status["stages"][2]["hosts"] == ["a"]
    assert taken(tmp_path)


def test_a_link_that_becomes_slow_moves_the_stages_behind_it(tmp_path: Path) -> None:
    with host(tmp_path) as other, relay(other.port) as between:
        text = CHAIN.format(port=between.port, count=240, rate=60, work="number")
        text = text.replace("count:", "shape: [128, 128, 3], count:")
        spec = require_sound(parse_pipeline(text.replace("$S", STAGES).encode(), f"{tmp_path}/p.yaml"))
        nodes = {"camera": "local", "slow": "a", "work": "a", "log": "local"}
        replanner = Replanner(spec, quick_host(), nodes)
        planner = RunReplanning(replanner, lambda route: 1.0, window=0.5)

        def slow_down(status: dict[str, Any]) -> None:
            if status["stages"][-1]["out"] >= 60:
                between.most, between.pause = 1 << 12, 0.02  # 200 kB/s: four frames a second

        plan = place_workers(plan_workers(spec, MOVABLE), nodes, 0)
        hosts = RemoteHosts(plan, None, {}, candidates=["a"])
        status = PipelineDriver(plan, print, slow_down, None, hosts, planner=planner).run()
    (move,) = status["moves"]
    assert {each["name"]: each["to"] for each in move["stages"]} == {"slow": "local", "work": "local"}
    assert move["reason"].startswith("local->a carries ")
    assert move["planned_period_s"] < move["period_s"] / 2
    assert move["replayed"] == "the old path was too slow to drain"
    assert sequences(tmp_path) == list(range(240))


def quick_host() -> PipelineProfile:
    """Return a profile in which the other host is four times as fast, and the link no limit."""
    machines = tuple(MachineFacts(name, 4, 1 << 33) for name in ("local", "a"))
    links = (LinkFacts("local", "a", 5e7, 1e-4), LinkFacts("a", "local", 5e7, 1e-4))
    cost = {"local": StageCost(0.04, 0.04, 1 << 20), "a": StageCost(0.01, 0.01, 1 << 20)}
    quick = {name: StageCost(1e-4, 1e-4, 1 << 20) for name in ("local", "a")}
    stages = (
        StageFacts("camera", 1.0, {"local": quick["local"]}),
        StageFacts("slow", 1.0, cost),
        StageFacts("work", 1.0, quick),
    )
    edges = (
        EdgeFacts("camera", "slow", 49_000, 1.0),
        EdgeFacts("slow", "work", 49_000, 1.0),
        EdgeFacts("work", "log", 120, 1.0),
    )
    return PipelineProfile("moves", machines, links, stages, edges)


def test_a_drain_during_a_move_ends_cleanly(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    script = Script([{"work": "a"}])
    sent: list[int] = []

    def drain(status: dict[str, Any]) -> None:
        if not script.moves and not sent:
            sent.append(theirs.send(b"x"))

    with host(tmp_path) as other, ours, theirs:
        text = CHAIN.format(port=other.port, count=100_000, rate=100, work="LoadsSlowly")
        spec = require_sound(parse_pipeline(text.replace("$S", STAGES).encode(), f"{tmp_path}/p.yaml"))
        plan = plan_workers(spec, MOVABLE)
        hosts = RemoteHosts(plan, None, {}, candidates=["a"])
        PipelineDriver(plan, print, drain, None, hosts, planner=script).run(ours)
    assert script.ended == [None]
    assert 0 < taken(tmp_path) < 100_000
