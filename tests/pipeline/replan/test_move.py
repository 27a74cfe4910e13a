"""Moves of stages as the coordinator decides them, without processes."""

from dataclasses import replace
from pathlib import Path

from fairlead.pipeline.coordinator import Coordinator
from fairlead.pipeline.decide.move import DRAIN_LIMIT, START_LIMIT
from fairlead.pipeline.fuse import RunPlan, place_workers, plan_workers, replace_spec
from fairlead.pipeline.progress import WorkedOn
from fairlead.pipeline.run_events import (
    AdoptPlan,
    CancelPaths,
    ClockTick,
    CommitPaths,
    EndWorker,
    JoinWorkers,
    KillWorker,
    MoveEnded,
    MoveRequested,
    PathJoined,
    PathSwitched,
    RunEffect,
    SpawnWorker,
    StartEpoch,
    StopRequested,
    SwitchPath,
    WorkerDone,
    WorkerExited,
    WorkerReady,
)
from tests.pipeline.pipelines import plan

TEXT = """
pipeline: p
hosts: {far: {address: "10.0.0.5:7070"}}
stages:
  - {name: camera, source: numbers, on_error: restart}
  - {name: slow, run: "$S:slow", on_error: restart}
  - {name: work, run: "$S:number", on_error: restart}
  - {name: log, sink: "null", on_error: restart}
"""
IDLE = WorkedOn(0, 0, 0, 0.0)


def plans(folder: Path) -> tuple[RunPlan, RunPlan]:
    """Return a plan with everything here, and one with `work` on the other host."""
    here = plan_workers(plan(TEXT, folder).spec, frozenset({"slow", "work"}))
    return here, place_workers(here, {"work": "far"}, 1)


def settled(folder: Path, *, replayable: bool = True) -> tuple[Coordinator, list[RunEffect]]:
    """Return the coordinator of a run whose move has begun, and how it begins."""
    here, there = plans(folder)
    run = Coordinator(here, replayable=replayable)
    run.begin()
    for worker in here.workers:
        run.handle(WorkerReady(worker.name), 0.0)
    return run, run.handle(MoveRequested(there), 1.0)


def switched(folder: Path, *, replayable: bool = True) -> tuple[Coordinator, list[RunEffect]]:
    """Return the coordinator of a run whose move has switched, and the effects of the switch."""
    run, _ = settled(folder, replayable=replayable)
    assert run.handle(WorkerReady("slow@1"), 2.0) == run.handle(WorkerReady("work@1"), 2.0) == []
    return run, run.handle(PathJoined("log", "work->log", 1), 2.0)


def test_processes_that_stay_keep_their_names(tmp_path: Path) -> None:
    here, there = plans(tmp_path)
    assert [worker.name for worker in here.workers] == ["camera", "slow+work", "log"]
    assert [(each.name, each.host) for each in there.workers] == [
        ("camera", "local"),
        ("slow@1", "local"),
        ("work@1", "far"),
        ("log", "local"),
    ]
    assert [link.path for link in there.links] == [1, 1, 1]
    back = place_workers(there, {"slow": "far"}, 2)
    assert [worker.name for worker in back.workers] == ["camera", "slow+work@2", "log"]


def test_a_move_starts_switches_drains_and_ends(tmp_path: Path) -> None:
    run, begin = settled(tmp_path)
    assert [type(each) for each in begin] == [SpawnWorker] * 2 + [JoinWorkers] * 3
    assert not run.can_move
    run, switch = switched(tmp_path)
    assert switch == [AdoptPlan(run.plan), SwitchPath("camera", "camera->slow")]
    begun = run.handle(PathSwitched("camera", "camera->slow", 1, 41), 3.0)
    assert begun == [StartEpoch("slow@1", 0, {0: 41}), StartEpoch("work@1", 0, {0: 41})]
    drained = run.handle(WorkerDone("slow+work", 0), 4.0)
    assert drained == [EndWorker("slow+work"), MoveEnded(done=True, sequence=41)]
    assert run.handle(WorkerExited("slow+work", "exit code 0", IDLE, {}), 4.0) == []
    assert run.can_move


def test_a_crash_before_the_switch_leaves_the_old_places(tmp_path: Path) -> None:
    run, _ = settled(tmp_path)
    effects = run.handle(WorkerExited("work@1", "signal 9 (SIGKILL)", IDLE, {}), 2.0)
    assert effects[0] == KillWorker("slow@1")
    assert {CancelPaths("camera"), CancelPaths("log")} <= {*effects}
    assert effects[-1] == MoveEnded(
        done=False, reason="stage work on far: its process ended with signal 9 (SIGKILL)"
    )
    assert [worker.name for worker in run.plan.workers] == ["camera", "slow+work", "log"]


def test_a_start_that_takes_too_long_and_a_drain_give_the_move_up(tmp_path: Path) -> None:
    run, _ = settled(tmp_path)
    assert run.handle(ClockTick({}), 1.0 + START_LIMIT - 0.1) == []
    assert KillWorker("slow@1") in run.handle(ClockTick({}), 1.0 + START_LIMIT)
    run, _ = settled(tmp_path)
    assert MoveEnded(done=False, reason="the run is drained") in run.handle(StopRequested(), 2.0)


def test_a_crash_after_the_switch_replays_on_the_new_path(tmp_path: Path) -> None:
    run, _ = switched(tmp_path)
    effects = run.handle(WorkerExited("slow+work", "signal 9 (SIGKILL)", IDLE, {"log": {0: 30}}), 3.0)
    starts = [each for each in effects if isinstance(each, StartEpoch)]
    assert starts == [StartEpoch(name, 1, {0: 30}) for name in ("camera", "log", "slow@1", "work@1")]
    assert CommitPaths("log") not in effects, "a frame of the old epoch must not reach the sink first"
    assert run.can_move


def test_an_old_path_that_is_slow_is_replayed_only_if_it_can_be(tmp_path: Path) -> None:
    run, _ = switched(tmp_path)
    assert run.handle(ClockTick({}), 2.0 + DRAIN_LIMIT - 0.1) == []
    late = run.handle(ClockTick({}, acknowledged={"log": {0: 12}}), 2.0 + DRAIN_LIMIT)
    assert KillWorker("slow+work") in late
    assert StartEpoch("log", 1, {0: 12}) in late
    live, _ = switched(tmp_path, replayable=False)
    assert live.handle(ClockTick({}), 100.0) == []
    lost = live.handle(WorkerExited("slow+work", "signal 9 (SIGKILL)", IDLE, {}), 101.0)
    assert CommitPaths("log") in lost
    assert StartEpoch("work@1", 0, {}) in lost


def test_a_plan_with_other_names_alone_is_adopted_at_once(tmp_path: Path) -> None:
    _, there = plans(tmp_path)
    run = Coordinator(there, replayable=True)
    for worker in there.workers:
        run.handle(WorkerReady(worker.name), 0.0)
    hosts = tuple(replace(each, name="farther") for each in there.spec.hosts)
    stages = tuple(replace(each, on="farther" if each.on == "far" else each.on) for each in there.spec.stages)
    renamed = replace_spec(there, replace(there.spec, hosts=hosts, stages=stages), 2)
    assert run.handle(MoveRequested(renamed), 1.0) == [AdoptPlan(renamed), MoveEnded(done=True)]
    assert [worker.host for worker in run.placed] == ["local", "local", "farther", "local"]


def test_stages_leave_a_place_that_is_lost_without_a_drain(tmp_path: Path) -> None:
    for replayable in (True, False):
        _, there = plans(tmp_path)
        run = Coordinator(there, replayable=replayable)
        for worker in there.workers:
            run.handle(WorkerReady(worker.name), 0.0)
        run.handle(WorkerExited("work@1", "its host", IDLE, {"log": {0: 30}}), 2.0)
        assert not run.can_move
        back = place_workers(there, {"work": "local"}, 2)
        assert run.can_adopt(back)
        effects = run.handle(MoveRequested(back, {"log": {0: 30}}), 3.0)
        assert effects[:2] == [KillWorker("slow@1"), KillWorker("work@1")]
        start, epoch = ({0: 30}, 2) if replayable else ({}, 0)
        assert SpawnWorker("slow+work@2", epoch, start) in effects
        begun = [each for each in effects if isinstance(each, StartEpoch)]
        assert begun == [StartEpoch(name, epoch, start) for name in ("camera", "log") if replayable]
        assert (CommitPaths("log") in effects) is not replayable
        assert isinstance(effects[-1], MoveEnded)
        for name in ("slow@1", "work@1"):
            assert run.handle(WorkerExited(name, "signal 9", IDLE, {}), 4.0) == []
        run.handle(WorkerReady("slow+work@2"), 4.0)
        assert run.can_move


def test_a_plan_waits_while_a_process_that_stays_is_not_ready(tmp_path: Path) -> None:
    here, there = plans(tmp_path)
    run = Coordinator(here, replayable=True)
    for name in ("camera", "slow+work"):
        run.handle(WorkerReady(name), 0.0)
    assert not run.can_adopt(there)
    run.handle(WorkerReady("log"), 0.0)
    assert run.can_adopt(there)
