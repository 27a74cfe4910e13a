"""The decisions of a run, without processes: events in, effects out."""

from pathlib import Path

from fairlead.pipeline.coordinator import MOST_RESTARTS, Coordinator
from fairlead.pipeline.progress import WorkedOn
from fairlead.pipeline.run_events import (
    ClockTick,
    DrainSource,
    EndWorker,
    FinishRun,
    JoinWorkers,
    KillWorker,
    SpawnWorker,
    StartEpoch,
    StartSource,
    StopRequested,
    WorkerDone,
    WorkerExited,
    WorkerFailed,
    WorkerReady,
)
from fairlead.units import Bytes
from tests.pipeline.pipelines import plan

IDLE = WorkedOn(0, 0, 0, 0.0)


def coordinator(folder: Path, policy: str, *, replayable: bool = True) -> Coordinator:
    """Return the coordinator of three workers."""
    text = f"""
pipeline: p
fuse: false
stages:
  - {{name: camera, source: numbers, on_error: {policy}}}
  - {{name: slow, run: "$S:slow", on_error: {policy}, timeout: 1s}}
  - {{name: log, sink: "null", on_error: {policy}}}
"""
    return Coordinator(plan(text, folder), replayable=replayable)


def exited(worker: str, at: WorkedOn = IDLE, acknowledged: int = 41) -> WorkerExited:
    """Return the end of a worker, when the sink has taken a frame."""
    return WorkerExited(worker, "signal 9 (SIGKILL)", at, {"log": {0: acknowledged}})


def test_a_run_ends_when_every_worker_is_done(tmp_path: Path) -> None:
    run = coordinator(tmp_path, "stop")
    assert [type(each) for each in run.begin()] == [SpawnWorker] * 3 + [JoinWorkers] * 2
    assert run.handle(WorkerDone("camera", 0), 1.0) == run.handle(WorkerDone("slow", 0), 1.0) == []
    assert run.handle(WorkerDone("log", 0), 1.0) == [EndWorker(each) for each in ("camera", "slow", "log")]
    assert run.handle(exited("camera"), 2.0) == run.handle(exited("slow"), 2.0) == []
    assert run.handle(exited("log"), 2.0) == [FinishRun()]


def test_a_source_starts_once_every_worker_is_ready(tmp_path: Path) -> None:
    run = coordinator(tmp_path, "restart")
    assert run.handle(WorkerReady("camera"), 1.0) == run.handle(WorkerReady("log"), 1.0) == []
    assert run.handle(WorkerReady("slow"), 1.0) == [StartSource("camera")]
    run.handle(exited("slow"), 2.0)
    assert run.handle(WorkerReady("slow"), 2.0) == [], "the source reads already"
    run.handle(exited("slow"), 3.0)
    run.handle(exited("camera"), 3.0)
    assert run.handle(WorkerReady("camera"), 3.0) == []
    assert run.handle(WorkerReady("slow"), 3.0) == [StartSource("camera")]


def test_stop_kills_the_others_and_names_stage_and_frame(tmp_path: Path) -> None:
    run = coordinator(tmp_path, "stop")
    run.handle(WorkerFailed("slow", "raised ValueError: no"), 1.0)
    effects = run.handle(exited("slow", WorkedOn(0, 0, 7, 0.5)), 1.0)
    assert effects == [KillWorker("camera"), KillWorker("log")]
    run.handle(exited("camera"), 1.0)
    (end,) = run.handle(exited("log"), 1.0)
    assert isinstance(end, FinishRun)
    assert end.failure == "stage slow, frame 7: raised ValueError: no"


def test_restart_replays_from_what_the_sink_has_taken(tmp_path: Path) -> None:
    run = coordinator(tmp_path, "restart")
    run.handle(WorkerReady("slow"), 1.0)
    run.handle(WorkerDone("camera", 0), 1.0)
    _, *effects = run.handle(exited("slow"), 1.0)
    assert effects[0] == SpawnWorker("slow", 1, {0: 41}, resume=True)
    assert [type(each) for each in effects[1:3]] == [JoinWorkers] * 2
    assert effects[3:] == [StartEpoch("camera", 1, {0: 41}), StartEpoch("log", 1, {0: 41})]
    for worker in ("slow", "log"):
        assert run.handle(WorkerDone(worker, 1), 1.0) == []
    assert run.handle(WorkerDone("camera", 0), 1.0) == [], "the end of an older epoch counts for nothing"
    assert len(run.handle(WorkerDone("camera", 1), 1.0)) == 3


def test_a_worker_that_ends_before_it_was_ready_opens_its_sink_as_a_new_one(tmp_path: Path) -> None:
    run = coordinator(tmp_path, "restart")
    run.begin()
    _, spawn, *_ = run.handle(exited("log", acknowledged=0), 1.0)
    assert spawn == SpawnWorker("log", 1, {0: 0}, resume=False)
    run = coordinator(tmp_path, "restart")
    assert run.begin({0: 32})[:3] == [
        SpawnWorker(name, 0, {0: 32}, resume=True) for name in ("camera", "slow", "log")
    ]
    _, spawn, *_ = run.handle(exited("log", acknowledged=40), 1.0)
    assert spawn == SpawnWorker("log", 1, {0: 40}, resume=True)


def test_a_run_that_was_drained_says_so(tmp_path: Path) -> None:
    run = coordinator(tmp_path, "stop")
    run.begin()
    run.handle(StopRequested(), 1.0)
    for worker in ("camera", "slow", "log"):
        run.handle(WorkerDone(worker, 0), 2.0)
    *_, last = [run.handle(exited(worker), 3.0) for worker in ("camera", "slow", "log")]
    assert last == [FinishRun(drained=True)]


def test_a_replay_begins_where_every_stage_with_state_has_a_checkpoint(tmp_path: Path) -> None:
    text = """
pipeline: p
fuse: false
stages:
  - {name: camera, source: numbers, on_error: restart}
  - {name: count, run: "$S:RunningCount", on_error: restart}
  - {name: log, sink: "null", on_error: restart}
"""
    cases = {frozenset({16, 32, 48}): 32, frozenset({48}): 0, frozenset[int](): 0, frozenset({16}): 16}
    for labels, start in cases.items():
        run = Coordinator(plan(text, tmp_path), replayable=True)
        run.handle(WorkerReady("log"), 1.0)
        end = WorkerExited("log", "signal 9", IDLE, {"log": {0: 41}}, {("count", 0): {0: labels}})
        _, spawn, *_ = run.handle(end, 1.0)
        assert spawn == SpawnWorker("log", 1, {0: start}, resume=True)


def test_a_process_that_holds_too_much_is_ended_once(tmp_path: Path) -> None:
    text = """
pipeline: p
fuse: false
stages:
  - {name: camera, source: numbers}
  - {name: slow, run: "$S:slow", memory: 1Mi}
  - {name: log, sink: "null"}
"""
    run = Coordinator(plan(text, tmp_path), replayable=True)
    assert run.handle(ClockTick({}, {"slow": Bytes(1 << 20)}), 1.0) == []
    assert run.handle(ClockTick({}, {"slow": Bytes((1 << 20) + 1)}), 1.0) == [KillWorker("slow")]
    assert run.handle(ClockTick({}, {"slow": Bytes(1 << 30)}), 1.0) == []


def test_a_source_that_cannot_be_read_again_goes_on_counting(tmp_path: Path) -> None:
    run = coordinator(tmp_path, "restart", replayable=False)
    run.handle(WorkerReady("camera"), 1.0)
    _, spawn, *rest = run.handle(exited("camera", WorkedOn(0, 0, 99, 0.0)), 1.0)
    assert spawn == SpawnWorker("camera", 0, {0: 100}, resume=True)
    assert [type(each) for each in rest] == [JoinWorkers]


def test_skip_restarts_without_the_frame(tmp_path: Path) -> None:
    run = coordinator(tmp_path, "skip")
    run.handle(WorkerReady("slow"), 1.0)
    _, spawn, *_ = run.handle(exited("slow", WorkedOn(0, 0, 42, 0.5)), 1.0)
    assert spawn == SpawnWorker("slow", 1, {0: 41}, resume=True, skip=((0, 42),))


def test_a_worker_that_ends_again_and_again_ends_the_run(tmp_path: Path) -> None:
    run = coordinator(tmp_path, "restart")
    for number in range(MOST_RESTARTS):
        assert isinstance(run.handle(exited("slow"), float(number))[1], SpawnWorker)
    assert run.handle(exited("slow"), 20.0) == [KillWorker("camera"), KillWorker("log")]


def test_a_call_that_takes_too_long_is_ended_once(tmp_path: Path) -> None:
    run = coordinator(tmp_path, "stop")
    calls = {"camera": IDLE, "slow": WorkedOn(0, 0, 3, 10.0), "log": IDLE}
    assert run.handle(ClockTick(calls), 10.9) == []
    assert run.handle(ClockTick(calls), 11.1) == [KillWorker("slow")]
    assert run.handle(ClockTick(calls), 11.4) == []


def test_a_stop_drains_and_a_second_one_ends_at_once(tmp_path: Path) -> None:
    run = coordinator(tmp_path, "stop")
    assert run.handle(StopRequested(), 1.0)[1:] == [DrainSource("camera")]
    assert run.handle(StopRequested(), 1.0) == [KillWorker(each) for each in ("camera", "slow", "log")]
