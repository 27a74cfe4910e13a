"""The decisions of a run: which workers start, when they end, and what follows a crash. Pure.

`handle(event, now) -> effects`: the driver performs the effects and feeds the outcomes back.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from fairlead.pipeline.fuse import LinkPlan, RunPlan, WorkerPlan
from fairlead.pipeline.progress import WorkedOn
from fairlead.pipeline.spec import OnError, StageRole
from fairlead.units import Bytes, format_bytes, format_duration

MOST_RESTARTS: Final = 10
"""Of one worker within `RESTART_WINDOW` seconds; one more ends the run."""
RESTART_WINDOW: Final = 60.0
Acknowledged = Mapping[int, int]
"""By stream: the last sequence number that a sink has taken."""
Labels = Mapping[tuple[str, int], Mapping[int, frozenset[int]]]
"""By worker and stage index, then by stream: the sequence numbers that checkpoints were taken before."""


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """A worker has opened its stages and joined its links."""

    worker: str


@dataclass(frozen=True, slots=True)
class WorkerDone:
    """A worker has passed on its last frame."""

    worker: str
    epoch: int


@dataclass(frozen=True, slots=True)
class WorkerFailed:
    """A worker says why it is about to end."""

    worker: str
    line: str


@dataclass(frozen=True, slots=True)
class WorkerExited:
    """The process of a worker has ended."""

    worker: str
    how: str
    """`signal 9`, `exit code 1`."""
    at: WorkedOn
    acknowledged: Mapping[str, Acknowledged]
    """What the sinks have taken, by worker."""
    checkpoints: Labels = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StopRequested:
    """The user wants the run to end: once drains it, twice ends it at once."""


@dataclass(frozen=True, slots=True)
class ClockTick:
    """What the workers are doing now."""

    calls: Mapping[str, WorkedOn]
    memory: Mapping[str, Bytes] = field(default_factory=dict)
    """What the processes of workers with a limit hold."""


RunEvent = WorkerReady | WorkerDone | WorkerFailed | WorkerExited | StopRequested | ClockTick


@dataclass(frozen=True, slots=True)
class SpawnWorker:
    """Start the process of a worker."""

    worker: str
    epoch: int
    start: Acknowledged
    """By stream: the sequence number from which frames come."""
    resume: bool = False
    skip: tuple[tuple[int, int], ...] = ()
    """Frames, by stream and sequence number, that the worker drops: each has ended it before."""


@dataclass(frozen=True, slots=True)
class JoinWorkers:
    """Make a new ring for a link, and hand its ends to the two workers."""

    link: LinkPlan


@dataclass(frozen=True, slots=True)
class StartEpoch:
    """Let a worker drop what it holds, and go on with frames of a new epoch."""

    worker: str
    epoch: int
    start: Acknowledged


@dataclass(frozen=True, slots=True)
class StartSource:
    """Let a source read: every worker is ready for its frames."""

    worker: str


@dataclass(frozen=True, slots=True)
class DrainSource:
    """Let a source end."""

    worker: str


@dataclass(frozen=True, slots=True)
class EndWorker:
    """Let a worker exit."""

    worker: str


@dataclass(frozen=True, slots=True)
class KillWorker:
    """End a process at once."""

    worker: str


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line for people."""

    line: str


@dataclass(frozen=True, slots=True)
class FinishRun:
    """Every process has ended."""

    failure: str = ""
    """Empty: the run is done."""
    hint: str = ""
    drained: bool = False
    """The user has ended the sources: there may be more frames."""


RunEffect = (
    SpawnWorker
    | JoinWorkers
    | StartEpoch
    | StartSource
    | DrainSource
    | EndWorker
    | KillWorker
    | LogLine
    | FinishRun
)


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
        self._plan = plan
        self._replayable = replayable
        self._workers = {worker.name: _Worker(worker) for worker in plan.workers}
        self._ending = False
        self._draining = False
        self._failure = ("", "")
        self.epoch = 0

    def begin(self, resumed: Acknowledged | None = None) -> list[RunEffect]:
        """Return what starts the run; `resumed`: the first frames of a run that goes on."""
        start = dict.fromkeys(range(len(self._plan.spec.sources)), 0) if resumed is None else resumed
        for worker in self._workers.values():
            worker.opened = resumed is not None
        spawned = [SpawnWorker(name, 0, start, worker.opened) for name, worker in self._workers.items()]
        return [*spawned, *map(JoinWorkers, self._plan.links)]

    def handle(self, event: RunEvent, now: float) -> list[RunEffect]:
        """Return what follows from an event."""
        match event:
            case WorkerReady():
                self._workers[event.worker].ready = self._workers[event.worker].opened = True
                return [*self._start_sources()]
            case WorkerDone():
                return self._on_done(event)
            case WorkerFailed():
                self._workers[event.worker].reason = event.line
                return []
            case WorkerExited():
                return self._on_exit(event, now)
            case StopRequested():
                return self._on_stop()
            case ClockTick():
                return [*self._overdue(event, now), *self._oversized(event)]

    def _start_sources(self) -> Iterable[RunEffect]:
        """Yield the start of each source that waits, once no worker would miss its frames."""
        if not all(worker.ready for worker in self._workers.values()):
            return
        for name, worker in self._workers.items():
            if _is_source(worker.plan) and not worker.reads:
                worker.reads = True
                yield StartSource(name)

    def _on_done(self, event: WorkerDone) -> list[RunEffect]:
        self._workers[event.worker].done = event.epoch == self.epoch
        if self._ending or not all(worker.done for worker in self._workers.values()):
            return []
        self._ending = True
        return [EndWorker(name) for name in self._workers]

    def _on_stop(self) -> list[RunEffect]:
        if self._ending or self._draining:
            return self._fail("the run was interrupted before every frame was processed", "")
        self._draining = True
        sources = [name for name, worker in self._workers.items() if _is_source(worker.plan)]
        return [LogLine("draining: no new frames; once more ends at once"), *map(DrainSource, sources)]

    def _on_exit(self, event: WorkerExited, now: float) -> list[RunEffect]:
        worker = self._workers[event.worker]
        worker.running = False
        if self._ending:
            return self._finish_if_over()
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
        yield from map(JoinWorkers, self._plan.links_of(name))
        if self._draining and _is_source(worker.plan):
            yield DrainSource(name)
        for other_name, other in self._workers.items():
            if self._replayable and other_name != name and other.running:
                yield StartEpoch(other_name, self.epoch, start)

    def replay_from(self, acknowledged: Mapping[str, Acknowledged], labels: Labels) -> Acknowledged:
        """Return the first frame of each stream that a sink may lack; a sink drops what it has already."""
        sinks = [worker.plan for worker in self._workers.values() if _is_sink(worker.plan)]
        start = {}
        for stream in range(len(self._plan.spec.sources)):
            reached = [sink.name for sink in sinks if stream in self._plan.streams_of(sink.name)]
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
            if stream in self._plan.streams_of(worker.plan.name)
            for index, stage in enumerate(worker.plan.stages)
            if stage.is_stateful
        ]
        known = [labels.get(key, {}).get(stream, frozenset()) | {0} for key in stateful]
        common = frozenset.intersection(*known) if known else frozenset({start})
        return max(number for number in common if number <= start)

    def _overdue(self, event: ClockTick, now: float) -> Iterable[RunEffect]:
        for name, call in event.calls.items():
            worker = self._workers[name]
            timeout = worker.plan.stages[call.stage].timeout if call.since else None
            if worker.running and not worker.reason and timeout is not None and now - call.since > timeout:
                worker.reason = f"blocked for longer than its timeout of {format_duration(timeout)}"
                yield KillWorker(name)

    def _oversized(self, event: ClockTick) -> Iterable[RunEffect]:
        for name, held in event.memory.items():
            worker = self._workers[name]
            limit = worker.plan.stages[0].memory
            if worker.running and not worker.reason and limit is not None and held > limit:
                worker.reason = (
                    f"its process holds {format_bytes(held)}, more than its memory of {format_bytes(limit)}"
                )
                yield KillWorker(name)

    def _fail(self, line: str, hint: str) -> list[RunEffect]:
        self._ending = True
        self._failure = self._failure if self._failure[0] else (line, hint)
        left = [name for name, worker in self._workers.items() if worker.running]
        return [*map(KillWorker, left)] or self._finish_if_over()

    def _finish_if_over(self) -> list[RunEffect]:
        if any(worker.running for worker in self._workers.values()):
            return []
        return [FinishRun(*self._failure, self._draining)]


def _place(plan: WorkerPlan, at: WorkedOn) -> str:
    stage = plan.stages[min(at.stage, len(plan.stages) - 1)]
    frame = f", frame {at.sequence}" if at.since else ""
    return f"stage {stage.name}{frame}"


def _after_last(plan: WorkerPlan, at: WorkedOn) -> Acknowledged:
    """Return where a source that cannot be read again goes on counting."""
    return {at.stream: at.sequence + 1} if _is_source(plan) else {}


def _is_source(plan: WorkerPlan) -> bool:
    return plan.stages[0].role is StageRole.SOURCE


def _is_sink(plan: WorkerPlan) -> bool:
    return plan.stages[-1].role is StageRole.SINK
