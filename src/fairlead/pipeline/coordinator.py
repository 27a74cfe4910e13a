"""The decisions of a run: which workers start, when they end, and what follows a crash. Pure.

`handle(event, now) -> effects`: the driver performs the effects and feeds the outcomes back.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from fairlead.pipeline.fuse import RunPlan, WorkerPlan
from fairlead.pipeline.move import DRAIN_LIMIT, START_LIMIT, Move
from fairlead.pipeline.progress import WorkedOn
from fairlead.pipeline.run_events import (
    Acknowledged,
    AdoptPlan,
    ClockTick,
    DrainSource,
    EndWorker,
    FinishRun,
    JoinWorkers,
    KillWorker,
    Labels,
    LogLine,
    MoveEnded,
    MoveRequested,
    PathJoined,
    PathSwitched,
    RunEffect,
    RunEvent,
    SpawnWorker,
    StartEpoch,
    StartSource,
    StopRequested,
    WorkerDone,
    WorkerExited,
    WorkerFailed,
    WorkerReady,
)
from fairlead.pipeline.spec import OnError, StageRole
from fairlead.units import format_bytes, format_duration

MOST_RESTARTS: Final = 10
"""Of one worker within `RESTART_WINDOW` seconds; one more ends the run."""
RESTART_WINDOW: Final = 60.0


@dataclass(slots=True)
class _Worker:
    """What the coordinator knows of one worker."""

    plan: WorkerPlan
    running: bool = True
    ready: bool = False
    opened: bool = False
    """It was ready before: its sink holds frames of this run."""
    reads: bool = False
    """Of a source: it has been started."""
    done: bool = False
    reason: str = ""
    """Why it is about to end."""
    restarts: list[float] = field(default_factory=list)
    fatal: tuple[int, int, int] | None = None
    """The stage, the stream and the frame that ended it last."""
    skip: tuple[tuple[int, int], ...] = ()


class Coordinator:
    """The state of a run."""

    def __init__(self, plan: RunPlan, *, replayable: bool) -> None:
        """Take whether every source can be read again."""
        self.plan = plan
        self._replayable = replayable
        self._workers = {worker.name: _Worker(worker) for worker in plan.workers}
        self._ending = False
        self._draining = False
        self._failure = ("", "")
        self._move: Move | None = None
        self._others: dict[str, _Worker] = {}
        """Workers that start for a move, are drained by it, or were ended by it; while they run."""
        self.epoch = 0

    def begin(self, resumed: Acknowledged | None = None) -> list[RunEffect]:
        """Return what starts the run; `resumed`: the first frames of a run that goes on."""
        start = dict.fromkeys(range(len(self.plan.spec.sources)), 0) if resumed is None else resumed
        for worker in self._workers.values():
            worker.opened = resumed is not None
        spawned = [SpawnWorker(name, 0, start, worker.opened) for name, worker in self._workers.items()]
        return [*spawned, *map(JoinWorkers, self.plan.links)]

    def handle(self, event: RunEvent, now: float) -> list[RunEffect]:
        """Return what follows from an event."""
        match event:
            case WorkerReady():
                return self._on_ready(event.worker, now)
            case WorkerDone():
                return self._on_done(event, now)
            case WorkerFailed():
                self._worker(event.worker).reason = event.line
                return []
            case WorkerExited():
                return self._on_exit(event, now)
            case StopRequested():
                return self._on_stop()
            case ClockTick():
                return [*self._overdue(event, now), *self._oversized(event), *self._late_move(event, now)]
            case MoveRequested() | PathJoined() | PathSwitched():
                return self._on_move_event(event, now)

    @property
    def plans(self) -> tuple[RunPlan, ...]:
        """The plans whose workers run: that of now, and both of a move."""
        return (self.plan,) if self._move is None else (self._move.new, self._move.old)

    @property
    def is_open(self) -> bool:
        """Whether every worker has opened its stages and takes frames."""
        return all(worker.ready for worker in self._workers.values())

    @property
    def can_move(self) -> bool:
        """Whether a move may begin now."""
        settled = all(worker.ready and not worker.done for worker in self._workers.values())
        return settled and not (self._ending or self._draining) and self._move is None

    def _worker(self, name: str) -> _Worker:
        """Return a worker of the plan, or another one that runs."""
        return self._workers[name] if name in self._workers else self._others[name]

    def _on_ready(self, name: str, now: float) -> list[RunEffect]:
        if name in self._workers:
            self._workers[name].ready = self._workers[name].opened = True
        elif self._move is not None:
            self._move.ready.add(name)
            return self._switch_if_prepared(self._move, now)
        return [*self._start_sources()]

    def _start_sources(self) -> Iterable[RunEffect]:
        """Yield the start of each source that waits, once no worker would miss its frames."""
        for name, worker in self._workers.items() if self.is_open else ():
            if _is_source(worker.plan) and not worker.reads:
                worker.reads = True
                yield StartSource(name)

    def _on_done(self, event: WorkerDone, now: float) -> list[RunEffect]:
        self._worker(event.worker).done = event.epoch == self.epoch
        move = self._move
        if move is not None and event.worker in self._others:
            return self._on_drained(move, event, now)
        effects = []
        if move is not None and not move.switched:  # the sources have ended: nothing is left to move
            effects = self._give_up_move(move, "the sources have ended")
        return [*effects, *self._end_if_done()]

    def _end_if_done(self) -> list[RunEffect]:
        if self._ending or self._move or not all(worker.done for worker in self._workers.values()):
            return []
        self._ending = True
        return [EndWorker(name) for name in self._workers]

    def _on_stop(self) -> list[RunEffect]:
        if self._ending or self._draining:
            return self._fail("the run was interrupted before every frame was processed", "")
        self._draining = True
        sources = [name for name, worker in self._workers.items() if _is_source(worker.plan)]
        starting = self._move if self._move is not None and not self._move.switched else None
        given_up = self._give_up_move(starting, "the run is drained") if starting is not None else []
        line = LogLine("draining: no new frames; once more ends at once")
        return [*given_up, line, *map(DrainSource, sources)]

    def _on_exit(self, event: WorkerExited, now: float) -> list[RunEffect]:
        worker = self._worker(event.worker)
        worker.running = False
        is_other = self._others.pop(event.worker, None) is not None
        if self._ending:
            return self._finish_if_over()
        if is_other:
            return self._on_other_exit(worker, event)
        effects, labels = self._leave_move(f"stage {worker.plan.stages[0].name} ended", event.checkpoints)
        return [*effects, *self._after_crash(worker, replace(event, checkpoints=labels), now)]

    def _after_crash(self, worker: _Worker, event: WorkerExited, now: float) -> list[RunEffect]:
        reason = worker.reason or f"its process ended with {event.how}"
        where = _place(worker.plan, event.at)
        worker.reason = ""
        if worker.plan.on_error is OnError.STOP:
            memory = "; if nothing killed it, a memory limit did: lower the depth of its edges"
            more = memory if reason.endswith("(SIGKILL)") else ""
            return self._fail(
                f"{where}: {reason}", f"correct the stage, or set on_error: skip or restart{more}"
            )
        crash = (event.at.stage, event.at.stream, event.at.sequence) if event.at.since else None
        if crash is not None and crash == worker.fatal and worker.plan.on_error is OnError.RESTART:
            hint = "correct the stage, or set on_error: skip"
            return self._fail(f"{where}: {reason}, for the second time with this frame", hint)
        recent = [moment for moment in worker.restarts if now - moment < RESTART_WINDOW]
        if len(recent) >= MOST_RESTARTS:
            return self._fail(f"{where}: {reason}; it was restarted {len(recent)} times within a minute", "")
        worker.restarts = [*recent, now]
        worker.fatal = crash
        if crash is not None and worker.plan.on_error is OnError.SKIP:
            worker.skip = (*worker.skip, crash[1:])
        return [LogLine(f"{where}: {reason}; restarted"), *self._restart(worker, event)]

    def _restart(self, worker: _Worker, event: WorkerExited) -> Iterable[RunEffect]:
        """Yield what starts a worker again, with new links, and replays the frames that may be lost."""
        name = worker.plan.name
        worker.running = True
        worker.ready = worker.reads = False
        start = _after_last(worker.plan, event.at)
        if self._replayable:
            start = self.replay_from(event.acknowledged, event.checkpoints)
            self.epoch += 1
            for other in self._workers.values():
                other.done = False
        else:
            worker.done = False
        yield SpawnWorker(name, self.epoch, start, worker.opened, worker.skip)
        yield from map(JoinWorkers, self.plan.links_of(name))
        if self._draining and _is_source(worker.plan):
            yield DrainSource(name)
        for other_name, other in self._workers.items():
            if self._replayable and other_name != name and other.running:
                yield StartEpoch(other_name, self.epoch, start)

    def replay_from(self, acknowledged: Mapping[str, Acknowledged], labels: Labels) -> Acknowledged:
        """Return the first frame of each stream that a sink may lack; a sink drops what it has already."""
        plans = [worker.plan for worker in self._workers.values()]
        sinks = [plan for plan in plans if plan.stages[-1].role is StageRole.SINK]
        start = {}
        for stream in range(len(self.plan.spec.sources)):
            reached = [sink.name for sink in sinks if stream in self.plan.streams_of(sink.name)]
            known = [acknowledged.get(name, {}).get(stream, 0) for name in reached]
            start[stream] = self._with_checkpoints(stream, min(known, default=0), labels)
        return start

    def _with_checkpoints(self, stream: int, start: int, labels: Labels) -> int:
        """Return the last frame up to one before which every stage with state has a checkpoint.

        Before frame 0 every stage has one: it starts without state.
        """
        stateful = [
            (worker.plan.name, index)
            for worker in self._workers.values()
            if stream in self.plan.streams_of(worker.plan.name)
            for index, stage in enumerate(worker.plan.stages)
            if stage.is_stateful
        ]
        known = [labels.get(key, {}).get(stream, frozenset()) | {0} for key in stateful]
        common = frozenset.intersection(*known) if known else frozenset({start})
        return max(number for number in common if number <= start)

    def _overdue(self, event: ClockTick, now: float) -> Iterable[RunEffect]:
        for name, call in event.calls.items():
            worker = self._worker(name)
            timeout = worker.plan.stages[call.stage].timeout if call.since else None
            if worker.running and not worker.reason and timeout is not None and now - call.since > timeout:
                worker.reason = f"blocked for longer than its timeout of {format_duration(timeout)}"
                yield KillWorker(name)

    def _oversized(self, event: ClockTick) -> Iterable[RunEffect]:
        for name, held in event.memory.items():
            worker = self._worker(name)
            limit = worker.plan.stages[0].memory
            if worker.running and not worker.reason and limit is not None and held > limit:
                worker.reason = (
                    f"its process holds {format_bytes(held)}, more than its memory of {format_bytes(limit)}"
                )
                yield KillWorker(name)

    def _fail(self, line: str, hint: str) -> list[RunEffect]:
        self._ending = True
        self._failure = self._failure if self._failure[0] else (line, hint)
        running = {**self._workers, **self._others}
        left = [name for name, worker in running.items() if worker.running]
        return [*map(KillWorker, left)] or self._finish_if_over()

    def _finish_if_over(self) -> list[RunEffect]:
        if self._others or any(worker.running for worker in self._workers.values()):
            return []
        return [FinishRun(*self._failure, self._draining)]

    def _on_move(self, event: MoveRequested, now: float) -> list[RunEffect]:
        if not self.can_move:
            return [MoveEnded(done=False, reason="the run is not settled")]
        self._move = Move(self.plan, event.plan, now + START_LIMIT)
        self._others |= {name: _Worker(event.plan.worker(name)) for name in self._move.arriving}
        return [*self._move.start(self.epoch)]

    def _on_move_event(self, event: MoveRequested | PathJoined | PathSwitched, now: float) -> list[RunEffect]:
        move = self._move
        if isinstance(event, MoveRequested):
            return self._on_move(event, now)
        if move is None or event.path != move.path:  # of a move that is over
            return []
        if isinstance(event, PathJoined):
            move.joined.add(event.edge)
            return self._switch_if_prepared(move, now)
        move.first[event.edge] = event.sequence
        return [*move.begin(self.epoch), *self._end_move_if_over(move)]

    def _switch_if_prepared(self, move: Move, now: float) -> list[RunEffect]:
        if move.switched or not move.is_prepared:
            return []
        move.switched = True
        move.limit = now + DRAIN_LIMIT
        leaving = {name: self._workers.pop(name) for name in move.leaving}
        for name in move.arriving:
            self._workers[name] = self._others.pop(name)
            self._workers[name].ready = self._workers[name].opened = True
        self._others |= leaving
        self.plan = move.new
        return [AdoptPlan(move.new), *move.switch()]

    def _on_drained(self, move: Move, event: WorkerDone, now: float) -> list[RunEffect]:
        if event.epoch != self.epoch or not move.switched:
            return []
        if self._replayable and not event.has_state:
            move.limit = now  # earlier checkpoints are there: the replay begins with them
            return []
        move.drained.add(event.worker)
        begun = [*move.begin(self.epoch)]
        return [EndWorker(event.worker), *begun, *self._end_move_if_over(move)]

    def _end_move_if_over(self, move: Move) -> list[RunEffect]:
        if not move.is_over:
            return []
        self._move = None
        return [MoveEnded(done=True, sequence=move.sequence), *self._end_if_done()]

    def _on_other_exit(self, worker: _Worker, event: WorkerExited) -> list[RunEffect]:
        """Return what follows the end of a worker that starts for a move, or is drained by it."""
        move, name = self._move, event.worker
        if move is None or name in move.drained or name not in (*move.arriving, *move.leaving):
            return []
        reason = worker.reason or f"its process ended with {event.how}"
        where = _place(worker.plan, event.at)
        if not move.switched and name in move.arriving:
            return self._give_up_move(move, f"{where} on {worker.plan.host}: {reason}")
        if worker.plan.on_error is OnError.STOP:
            return self._fail(f"{where}: {reason}", "correct the stage, or set on_error: skip or restart")
        effects, labels = self._leave_move(f"{where}: {reason}", event.checkpoints)
        return [*effects, *self._replay(event.acknowledged, labels)]

    def _late_move(self, event: ClockTick, now: float) -> list[RunEffect]:
        move = self._move
        if move is None or self._ending or now < move.limit or not (self._replayable or not move.switched):
            return []
        if not move.switched:
            return self._give_up_move(move, "its workers did not start in time")
        effects, labels = self._leave_move("the old path was too slow to drain", event.checkpoints)
        return [*effects, *self._replay(event.acknowledged, labels)]

    def _leave_move(self, reason: str, labels: Labels) -> tuple[list[RunEffect], Labels]:
        """Return what ends a move at once, on its old path before the switch, on the new one after it.

        Also the labels of checkpoints by the workers that have them then.
        """
        move = self._move
        if move is None:
            return [], labels
        if not move.switched:
            return self._give_up_move(move, reason), labels
        self._move = None
        killed = [KillWorker(name) for name in move.leaving if name in self._others]
        ended = MoveEnded(done=True, sequence=move.sequence, reason=reason)
        late = [name for name in move.arriving if name not in move.begun]
        begun = [] if self._replayable else [StartEpoch(name, self.epoch, {}) for name in late]
        return [*killed, *move.force(replayed=self._replayable), *begun, ended], move.carried(labels)

    def _give_up_move(self, move: Move, reason: str) -> list[RunEffect]:
        self._move = None
        killed = [KillWorker(name) for name in move.arriving if name in self._others]
        return [*killed, *move.give_up(), MoveEnded(done=False, reason=reason)]

    def _replay(self, acknowledged: Mapping[str, Acknowledged], labels: Labels) -> Iterable[RunEffect]:
        """Yield what lets every worker go back to the first frame that a sink may lack."""
        if not self._replayable:
            return
        start = self.replay_from(acknowledged, labels)
        self.epoch += 1
        for name, worker in self._workers.items():
            worker.done = False
            yield StartEpoch(name, self.epoch, start)


def _place(plan: WorkerPlan, at: WorkedOn) -> str:
    stage = plan.stages[min(at.stage, len(plan.stages) - 1)]
    frame = f", frame {at.sequence}" if at.since else ""
    return f"stage {stage.name}{frame}"


def _after_last(plan: WorkerPlan, at: WorkedOn) -> Acknowledged:
    """Return where a source that cannot be read again goes on counting."""
    return {at.stream: at.sequence + 1} if _is_source(plan) else {}


def _is_source(plan: WorkerPlan) -> bool:
    return plan.stages[0].role is StageRole.SOURCE
