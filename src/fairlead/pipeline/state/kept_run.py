"""A run whose progress is kept: where it goes on, and what is written while it runs."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from fairlead.errors import OutputError
from fairlead.pipeline.checkpoints import CheckpointStore
from fairlead.pipeline.endpoints.sinks import SINKS
from fairlead.pipeline.fuse import RunPlan
from fairlead.pipeline.place import Positions
from fairlead.pipeline.progress import Position
from fairlead.pipeline.spec import LOCAL, StageRole
from fairlead.pipeline.state.folder import StateFolder, boot_id
from fairlead.pipeline.state.keeper import RecordKeeper
from fairlead.pipeline.state.record import RunPhase, RunRecord, fingerprint
from fairlead.pipeline.state.snapshot import advance, leave_gaps, reconcile, restored


class KeptRun:
    """The progress of one run of a plan."""

    def __init__(
        self,
        folder: StateFolder,
        plan: RunPlan,
        log: Callable[[str], None],
        *,
        sources: Mapping[str, bool],
        replayable: bool,
    ) -> None:
        """Take by source whether it can be read again, and whether the run repeats frames after a crash."""
        self._folder = folder
        self._plan = plan
        self._log = log
        self._replayable = replayable
        self._is_resumed = folder.before is not None
        self._record = folder.record
        if self._is_resumed:
            self._record = self._reconciled(sources)
        self._keeper = RecordKeeper(folder, log)

    @property
    def first_frames(self) -> Mapping[int, int] | None:
        """By stream: the frame with which the run goes on; None: it begins."""
        return self._record.starts if self._is_resumed else None

    def fill(self, checkpoints: CheckpointStore) -> None:
        """Hand the kept checkpoints over."""
        for key, state in restored(self._record, self._plan).items():
            start = self._record.starts.get(key[2], 0)
            checkpoints.add(key, start, state, start)

    def known(self, worker: str) -> Mapping[int, Position]:
        """Return what the sink of a worker had taken before."""
        return self._record.positions.get(self._plan.worker(worker).stages[-1].name, {})

    def on_plan(self, plan: RunPlan, *, is_of_file: bool) -> None:
        """Take the plan of a run whose stages have moved; `is_of_file`: because its file says so."""
        self._plan = plan
        if is_of_file:
            self._record = replace(self._record, parts=fingerprint(plan.spec))

    @property
    def is_due(self) -> bool:
        """Whether the progress should be updated."""
        return self._record.phase is RunPhase.RUNNING and self._keeper.is_due

    def begin(self) -> None:
        """Keep that every stage is open, before the first frame is read: from now on the run can go on."""
        if self._folder.record.phase is RunPhase.OPENING:
            self._record = replace(self._record, phase=RunPhase.RUNNING)
            self._keeper.write(self._record)

    def update(self, starts: Mapping[int, int], positions: Positions, checkpoints: CheckpointStore) -> None:
        """Take how far the run has come."""
        self._record = self._advanced(starts, positions, checkpoints)
        self._keeper.offer(self._record)

    def finish(
        self, starts: Mapping[int, int], positions: Positions, checkpoints: CheckpointStore, *, done: bool
    ) -> None:
        """Keep how the run has ended."""
        try:
            if done:
                self._keeper.write(replace(self._record, phase=RunPhase.DONE, states={}))
            elif self._record.phase is RunPhase.RUNNING:
                self._keeper.write(self._advanced(starts, positions, checkpoints))
                self._log(f"the progress is kept in {self._folder.path}: --resume goes on with it")
        except OutputError as error:  # the run has ended as it has: an earlier record is there
            self._log(f"the progress cannot be kept: {error}")

    def close(self) -> None:
        """Write nothing any more."""
        self._keeper.close()

    def _advanced(
        self, starts: Mapping[int, int], positions: Positions, checkpoints: CheckpointStore
    ) -> RunRecord:
        return advance(self._record, self._plan, starts, positions, checkpoints, replayable=self._replayable)

    def _reconciled(self, sources: Mapping[str, bool]) -> RunRecord:
        """Return where a run goes on, and say so."""
        if self._replayable:
            record = reconcile(self._record, self._plan, held_positions(self._plan), boot_id())
            frames = [
                f"{stage.name} with frame {record.starts.get(stream, 0)}"
                for stream, stage in enumerate(self._plan.spec.sources)
            ]
            self._log(f"goes on: {', '.join(frames)}")
            return record
        live = [name for name, again in sources.items() if not again]
        why = f"{live[0]} cannot be read again" if live else "a stage has ordered: false"
        self._log(f"goes on with new frames and the last states: {why}; frames on their way were lost")
        return leave_gaps(self._record, self._plan, sources)


def held_positions(plan: RunPlan) -> dict[str, dict[int, Position]]:
    """Return what sinks on this machine hold, by sink; those that cannot say it are left out."""
    found = {}
    for worker in plan.workers:
        sink = worker.stages[-1]
        held = SINKS[sink.target].held if sink.role is StageRole.SINK and worker.host == LOCAL else None
        if held is not None:
            streams = plan.streams_of(worker.name)
            found[sink.name] = held(sink.options, plan.spec.folder, streams)
    return found
