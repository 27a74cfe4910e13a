"""What a run is told, and what its coordinator lets the driver do: events and effects, values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairlead.pipeline.fuse import LinkPlan, RunPlan
from fairlead.pipeline.progress import WorkedOn
from fairlead.units import Bytes

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
    has_state: bool = True
    """The states that it handed over have arrived; False: one is missing."""


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
    acknowledged: Mapping[str, Acknowledged] = field(default_factory=dict)
    """What the sinks have taken, by worker, while a move is under way."""
    checkpoints: Labels = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MoveRequested:
    """Stages are to be in other places, or other stages in theirs."""

    plan: RunPlan
    """With the stages in those places."""
    acknowledged: Mapping[str, Acknowledged] = field(default_factory=dict)
    """What the sinks have taken, by worker."""
    checkpoints: Labels = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PathJoined:
    """A worker that stays has the links of a new path into it."""

    worker: str
    edge: str
    path: int


@dataclass(frozen=True, slots=True)
class PathSwitched:
    """A worker that stays sends frames from this number on to the new path."""

    worker: str
    edge: str
    path: int
    sequence: int


RunEvent = (
    WorkerReady
    | WorkerDone
    | WorkerFailed
    | WorkerExited
    | StopRequested
    | ClockTick
    | MoveRequested
    | PathJoined
    | PathSwitched
)


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
class HandOverState:
    """Let a worker send the states of its stages once it has passed on its last frame."""

    worker: str


@dataclass(frozen=True, slots=True)
class CarryState:
    """Let a stage on a new worker have the checkpoints of its old worker."""

    stage: str
    source: str
    target: str
    sequence: int | None
    """The frame before which the state was handed over; None: it was not."""

    @property
    def ends(self) -> tuple[str, str]:
        """The old worker and the new one."""
        return self.source, self.target


@dataclass(frozen=True, slots=True)
class SwitchPath:
    """Let a worker send the next frame of an edge to the new path, and end the old one before it."""

    worker: str
    edge: str


@dataclass(frozen=True, slots=True)
class CommitPaths:
    """Let a worker use new paths at once, and forget the old ones."""

    worker: str


@dataclass(frozen=True, slots=True)
class CancelPaths:
    """Let a worker forget the new paths."""

    worker: str


@dataclass(frozen=True, slots=True)
class DropLink:
    """End a link between hosts with the frames that are on it."""

    link: LinkPlan


@dataclass(frozen=True, slots=True)
class AdoptPlan:
    """The run goes on with other places: its plan from now on."""

    plan: RunPlan


@dataclass(frozen=True, slots=True)
class MoveEnded:
    """A move is over."""

    done: bool
    """False: the old places stay."""
    sequence: int = 0
    """The first frame on the new path."""
    reason: str = ""
    """Why it was given up, or why frames were replayed; empty: neither."""


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


MoveEffect = (
    HandOverState | CarryState | SwitchPath | CommitPaths | CancelPaths | DropLink | AdoptPlan | MoveEnded
)
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
    | MoveEffect
)
