"""From a running pipeline to a record, and from a record to where a run goes on. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from fairlead.pipeline.checkpoints import CheckpointStore, Key
from fairlead.pipeline.fuse import RunPlan
from fairlead.pipeline.place import Positions
from fairlead.pipeline.progress import Position
from fairlead.pipeline.spec import StageRole
from fairlead.pipeline.state.record import RunPhase, RunRecord

NUMBERS_APART: Final = 1_000_000
"""More frames than a live source reads between two records; it leaves them out, and uses no number twice."""
_NONE: Final = (0, 0)


def advance(
    record: RunRecord,
    plan: RunPlan,
    starts: Mapping[int, int],
    positions: Positions,
    checkpoints: CheckpointStore,
    *,
    replayable: bool,
) -> RunRecord:
    """Return the record of a run that has come further; `starts` as in the record, by what is known now.

    A start never goes back: the checkpoints of the earlier record are kept with it.
    """
    moved = {stream for stream, number in starts.items() if number > record.starts.get(stream, 0)}
    states = dict(record.states)
    if replayable:
        states = {key: state for key, state in states.items() if key[1] not in moved}
    for worker in plan.workers:
        for stage, stream, state in checkpoints.at(worker.name, starts, latest=not replayable):
            if not replayable or stream in moved:
                states[worker.stages[stage].name, stream] = state
    return replace(
        record,
        phase=RunPhase.RUNNING,
        starts={
            stream: max(starts.get(stream, 0), record.starts.get(stream, 0))
            for stream in range(len(plan.spec.sources))
        },
        positions={
            worker.stages[-1].name: dict(positions.get(worker.name, {}))
            for worker in plan.workers
            if worker.stages[-1].role is StageRole.SINK
        },
        states=states,
    )


def reconcile(
    record: RunRecord, plan: RunPlan, held: Mapping[str, Mapping[int, Position]], boot: str
) -> RunRecord:
    """Return a record that agrees with what sinks hold themselves.

    In the same boot a sink holds at least what was recorded, or what it held was moved away since. After
    another boot what it holds counts alone: the disk may lack the end, which is made again.
    """
    is_same = bool(boot) and record.boot == boot
    positions, starts = dict(record.positions), dict(record.starts)
    for worker in plan.workers:
        sink = worker.stages[-1].name
        if sink not in held:
            continue
        known = record.positions.get(sink, {}) if is_same else {}
        streams = known.keys() | held[sink].keys()
        positions[sink] = {at: max(known.get(at, _NONE), held[sink].get(at, _NONE)) for at in streams}
        for stream in plan.streams_of(worker.name):
            last = positions[sink].get(stream, _NONE)[0]
            if last < starts.get(stream, 0):
                has_state = any(key[1] == stream for key in record.states)
                starts[stream] = 0 if has_state else last
    changed = {stream for stream, number in starts.items() if number != record.starts.get(stream, 0)}
    states = {key: state for key, state in record.states.items() if key[1] not in changed}
    return replace(record, boot=boot, starts=starts, positions=positions, states=states)


def leave_gaps(record: RunRecord, plan: RunPlan, replayable: Mapping[str, bool]) -> RunRecord:
    """Return a record whose live sources go on with numbers that no frame has had."""
    starts = {
        stream: record.starts.get(stream, 0) + (0 if replayable[stage.name] else NUMBERS_APART)
        for stream, stage in enumerate(plan.spec.sources)
    }
    return replace(record, starts=starts)


def restored(record: RunRecord, plan: RunPlan) -> dict[Key, bytes]:
    """Return the checkpoints of a record by worker, index of the stage, and stream."""
    return {
        (worker.name, index, stream): state
        for (name, stream), state in record.states.items()
        for worker in plan.workers
        for index, stage in enumerate(worker.stages)
        if stage.name == name
    }
