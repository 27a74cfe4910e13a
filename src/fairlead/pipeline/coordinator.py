"""The decisions of a run: which workers start, when they end, and what follows a crash. Pure.

`handle(event, now) -> effects`: the driver performs the effects and feeds the outcomes back.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from fairlead.pipeline.decide.move import DRAIN_LIMIT, START_LIMIT, Move
from fairlead.pipeline.decide.replay import replay_from
from fairlead.pipeline.decide.worker_state import WorkerState
from fairlead.pipeline.fuse import RunPlan, WorkerPlan
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
from fairlead.pipeline.spec import OnError

MOST_RESTARTS: Final = 10
"""Of one worker within `RESTART_WINDOW` seconds; one more ends the run."""
RESTART_WINDOW: Final = 60.0


class Coordinator:
    """The state of a run."""

    def __init__(self, plan: RunPlan, *, replayable: bool) -> None:
        """Take whether every source can be read again."""
        self.plan = plan
        self._replayable = replayable
        self._workers = {worker.name: WorkerState(worker) for worker in plan.workers}
        self._ending = False
        self._draining = False
        self._failure = ("", "")
        self._move: Move | None = None
        self._others: dict[str, WorkerState] = {}
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
                return [*self._over_limits(event, now), *self._late_move(event, now)]
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

    def can_adopt(self, plan: RunPlan) -> bool:
        """Whether the run can go on with a plan now: what is not ready, if anything, leaves with it."""
        if self._ending or self._draining or self._move is not None:
            return False
        kept = {worker.name for worker in plan.workers}
        return all(worker.ready and not worker.done for name, worker in self._workers.items() if name in kept)

    @property
    def placed(self) -> list[WorkerPlan]:
        """The processes that hold frames: those of the plan, and others that have not ended yet."""
        starting = self._move.arriving if self._move is not None and not self._move.switched else []
        others = [worker.plan for name, worker in self._others.items() if name not in starting]
        return [*self.plan.workers, *others]

    def _worker(self, name: str) -> WorkerState:
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
            if worker.is_source and not worker.reads:
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
        sources = [name for name, worker in self._workers.items() if worker.is_source]
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

    def _after_crash(self, worker: WorkerState, event: WorkerExited, now: float) -> list[RunEffect]:
        reason = worker.reason or f"its process ended with {event.how}"
        where = worker.where(event.at)
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

    def _restart(self, worker: WorkerState, event: WorkerExited) -> Iterable[RunEffect]:
        """Yield what starts a worker again, with new links, and replays the frames that may be lost."""
        name = worker.plan.name
        worker.running = True
        worker.ready = worker.reads = False
        start = worker.after_last(event.at)
        if self._replayable:
            start = replay_from(self.plan, event.acknowledged, event.checkpoints)
            self.epoch += 1
            for other in self._workers.values():
                other.done = False
        else:
            worker.done = False
        yield SpawnWorker(name, self.epoch, start, worker.opened, worker.skip)
        yield from map(JoinWorkers, self.plan.links_of(name))
        if self._draining and worker.is_source:
            yield DrainSource(name)
        for other_name, other in self._workers.items():
            if self._replayable and other_name != name and other.running:
                yield StartEpoch(other_name, self.epoch, start)

    def _over_limits(self, event: ClockTick, now: float) -> Iterable[RunEffect]:
        """Yield the end of each process that takes too long, or holds too much."""
        for name in {**event.calls, **event.memory}:
            worker = self._worker(name)
            excess = worker.excess(event.calls.get(name), event.memory.get(name), now)
            if excess and worker.running and not worker.reason:
                worker.reason = excess
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
        if not self.can_adopt(event.plan):
            return [MoveEnded(done=False, reason="the run is not settled")]
        move = Move(self.plan, event.plan, now + START_LIMIT)
        if not move.arriving:  # names of hosts alone have changed
            return [*self._adopt(event.plan), MoveEnded(done=True)]
        if not self.can_move:
            return self._relocate(move, event)
        self._move = move
        self._others |= {name: WorkerState(event.plan.worker(name)) for name in move.arriving}
        return [*move.start(self.epoch)]

    def _relocate(self, move: Move, event: MoveRequested) -> list[RunEffect]:
        """Return what puts stages to other places whose old ones are lost: there is nothing to drain."""
        lost = {name: self._workers.pop(name) for name in move.leaving}
        self._others |= {name: worker for name, worker in lost.items() if worker.running}
        killed = [KillWorker(name) for name, worker in lost.items() if worker.running]
        staying = [*self._workers]
        self._workers |= {name: WorkerState(move.new.worker(name)) for name in move.arriving}
        adopted = [*self._adopt(move.new), *move.carry_all()]
        start: Acknowledged = {}
        if self._replayable:
            start = replay_from(move.new, event.acknowledged, move.carried(event.checkpoints))
            self.epoch += 1
            for worker in self._workers.values():
                worker.done = False
        spawned = [SpawnWorker(name, self.epoch, start) for name in move.arriving]
        begun = [StartEpoch(name, self.epoch, start) for name in staying if self._replayable]
        reason = "the old processes were lost" if self._replayable else ""
        ended = MoveEnded(done=True, sequence=min(start.values(), default=0), reason=reason)
        return [*killed, *adopted, *spawned, *move.relink(replayed=self._replayable), *begun, ended]

    def _adopt(self, plan: RunPlan) -> list[RunEffect]:
        self.plan = plan
        for name, worker in self._workers.items():
            worker.plan = plan.worker(name)
        return [AdoptPlan(plan)]

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
        return [*self._adopt(move.new), *move.switch()]

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

    def _on_other_exit(self, worker: WorkerState, event: WorkerExited) -> list[RunEffect]:
        """Return what follows the end of a worker that starts for a move, or is drained by it."""
        move, name = self._move, event.worker
        if move is None or name in move.drained or name not in (*move.arriving, *move.leaving):
            return []
        reason = worker.reason or f"its process ended with {event.how}"
        where = worker.where(event.at)
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
        start = replay_from(self.plan, acknowledged, labels)
        self.epoch += 1
        for name, worker in self._workers.items():
            worker.done = False
            yield StartEpoch(name, self.epoch, start)
