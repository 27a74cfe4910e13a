"""When a running pipeline is cut in another way: measurements in, proposals out."""

from pathlib import Path

import pytest

from fairlead.pipeline.check import require_sound
from fairlead.pipeline.profile.facts import (
    EdgeFacts,
    LinkFacts,
    MachineFacts,
    PipelineProfile,
    StageCost,
    StageFacts,
)
from fairlead.pipeline.replan.moves import ProposedMove
from fairlead.pipeline.replan.rates import LinkUse, RunRates, WindowRates
from fairlead.pipeline.replan.replanner import COOL_DOWN, PROBE_AFTER, WINDOWS, Replanner, movable_stages
from fairlead.pipeline.yaml_file import parse_pipeline
from tests.pipeline.pipelines import STAGES

TEXT = """
pipeline: cut
hosts: {far: {address: "10.0.0.5:7070"}}
stages:
  - {name: camera, source: numbers}
  - {name: scale, run: "$S:slow"}
  - {name: detect, run: "$S:number"}
  - {name: log, sink: "null"}
"""
LINK = ("local", "far")
FAR = {"camera": "local", "scale": "local", "detect": "far", "log": "local"}
HERE = FAR | {"detect": "local"}
RATE = 25e6


def profile() -> PipelineProfile:
    """Return a profile whose best cut has `detect` on the far host: 25 ms there, 21 ms on the link."""

    def cost(**seconds: float) -> dict[str, StageCost]:
        return {node: StageCost(each, each, 1 << 20) for node, each in seconds.items()}

    machines = tuple(MachineFacts(name, 4, 1 << 33) for name in LINK)
    links = (LinkFacts(*LINK, RATE, 1e-3), LinkFacts("far", "local", RATE, 1e-3))
    stages = (
        StageFacts("camera", 1.0, cost(local=0.002)),
        StageFacts("scale", 1.0, cost(local=0.01, far=0.005)),
        StageFacts("detect", 1.0, cost(local=0.08, far=0.025)),
    )
    edges = (
        EdgeFacts("camera", "scale", 2_764_800, 1.0),
        EdgeFacts("scale", "detect", 520_000, 1.0),
        EdgeFacts("detect", "log", 160, 1.0),
    )
    return PipelineProfile("cut", machines, links, stages, edges)


def replanner(folder: Path, nodes: dict[str, str] = FAR) -> Replanner:
    """Return the replanner of a run."""
    spec = require_sound(parse_pipeline(TEXT.replace("$S", STAGES).encode(), f"{folder}/p.yaml"))
    assert movable_stages(spec) == {"scale", "detect"}
    return Replanner(spec, profile(), nodes)


def window(rate: float = RATE, *, slow: float = 1.0, far: float = 1.0, held_back: bool = True) -> WindowRates:
    """Return the measurements of a second in which the link was busy, with stages slower by factors."""
    costs = {"camera": 0.002 * slow, "scale": 0.01 * slow, "detect": 0.025 * far}
    return WindowRates(costs, {LINK: LinkUse(rate * 0.8, 0.8, 1.0)}, held_back, 0.04)


def feed(planner: Replanner, windows: list[WindowRates], start: float = 0.0) -> list[ProposedMove | None]:
    """Return what each window proposes, one a second."""
    return [planner.observe(each, start + index) for index, each in enumerate(windows)]


def test_measurements_as_planned_move_nothing(tmp_path: Path) -> None:
    assert feed(replanner(tmp_path), [window()] * 60) == [None] * 60


def test_a_link_at_a_tenth_moves_the_stage_after_three_windows(tmp_path: Path) -> None:
    *before, move = feed(replanner(tmp_path), [window(RATE / 10)] * WINDOWS)
    assert before == [None] * (WINDOWS - 1)
    assert move is not None
    assert move.nodes == HERE
    assert move.reason == "local->far carries 2.4 MiB/s, 24 MiB/s in the profile"
    assert move.period_s == pytest.approx(0.208)
    assert move.planned_period_s == pytest.approx(0.092)


def test_a_slower_machine_loses_its_stages(tmp_path: Path) -> None:
    moves = feed(replanner(tmp_path), [window(slow=20.0)] * WINDOWS)
    assert moves[-1] is not None
    assert moves[-1].nodes["scale"] == "far", "the far host is not slower: all stages of this one are"


def test_noise_moves_nothing(tmp_path: Path) -> None:
    slow, good = window(RATE / 10), window()
    assert feed(replanner(tmp_path), [slow, slow, good] * 20) == [None] * 60


def test_a_small_gain_moves_nothing(tmp_path: Path) -> None:
    assert feed(replanner(tmp_path), [window(RATE / 4.8)] * 20) == [None] * 20


def test_a_source_that_is_slow_itself_moves_nothing(tmp_path: Path) -> None:
    assert feed(replanner(tmp_path), [window(RATE / 10, held_back=False)] * 20) == [None] * 20


def test_windows_without_a_value_neither_count_nor_reset(tmp_path: Path) -> None:
    slow, empty = window(RATE / 10), WindowRates()
    moves = feed(replanner(tmp_path), [slow, empty, slow, empty, empty, slow])
    assert moves[:-1] == [None] * 5
    assert moves[-1] is not None


def test_a_slow_link_that_was_left_stays_slow_until_it_is_measured(tmp_path: Path) -> None:
    planner = replanner(tmp_path)
    assert feed(planner, [window(RATE / 10)] * WINDOWS)[-1] is not None
    planner.on_moved(HERE, 3.0)
    here = WindowRates({"camera": 0.002, "scale": 0.01, "detect": 0.08}, {}, True, 0.092)
    assert feed(planner, [here] * 25, 4.0) == [None] * 25
    assert planner.due_probe(3.0 + PROBE_AFTER) == LINK
    planner.on_probe(LINK, RATE / 10, 34.0)
    assert planner.due_probe(34.0 + PROBE_AFTER) is None, "the second time comes later"
    assert planner.due_probe(34.0 + 2 * PROBE_AFTER) == LINK
    planner.on_probe(LINK, RATE, 95.0)
    back = feed(planner, [here] * WINDOWS, 96.0)
    assert back[-1] is not None
    assert back[-1].nodes == FAR


def test_a_move_is_followed_by_a_pause_that_grows_while_moves_bring_nothing(tmp_path: Path) -> None:
    planner = replanner(tmp_path)
    slow = window(RATE / 10)
    assert feed(planner, [slow] * WINDOWS)[-1] is not None
    planner.on_moved(FAR, 3.0)
    moves = feed(planner, [slow] * 20, 4.0)
    first = next(index for index, move in enumerate(moves) if move is not None)
    assert 4.0 + first >= 3.0 + COOL_DOWN
    planner.on_moved(FAR, 20.0)
    moves = feed(planner, [slow] * 60, 21.0)
    second = next(index for index, move in enumerate(moves) if move is not None)
    assert 21.0 + second >= 20.0 + 2 * COOL_DOWN


def test_counters_become_rates() -> None:
    rates = RunRates()
    assert rates.measure(status(0, 0.0, 0.0, 0, 0.0), 10.0) == WindowRates()
    measured = rates.measure(status(20, 0.5, 0.9, 1_000_000, 0.5), 11.0)
    assert measured == WindowRates({"camera": 0.025}, {LINK: LinkUse(1_000_000, 0.5, 1.0)}, True, 0.05)
    assert rates.measure(status(20, 0.5, 0.9, 1_000_000, 0.5), 12.0) == WindowRates(), "nothing is new"
    late = rates.measure(status(21, 0.525, 0.9, 1_000_000, 0.5), 13.0)
    assert (late.period_s, late.held_back) == (2.0, False)


def status(frames: int, busy: float, blocked: float, sent: int, seconds: float) -> dict[str, object]:
    """Return the status of a source that sends to another host."""
    times = {"process": {"sum": busy}, "send": {"sum": blocked}}
    stage = {"name": "camera", "role": "source", "workers": ["camera"], "out": frames, "times": times}
    transfer = {"from": "local", "to": "far", "bytes": sent, "seconds": seconds}
    return {"stages": [stage], "edges": [], "transfers": [transfer]}
