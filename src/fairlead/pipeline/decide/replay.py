"""With which frames a replay begins. Pure."""

from collections.abc import Mapping

from fairlead.pipeline.fuse import RunPlan
from fairlead.pipeline.run_events import Acknowledged, Labels
from fairlead.pipeline.spec import StageRole


def replay_from(plan: RunPlan, acknowledged: Mapping[str, Acknowledged], labels: Labels) -> Acknowledged:
    """Return the first frame of each stream that a sink may lack; a sink drops what it has already."""
    sinks = [worker for worker in plan.workers if worker.stages[-1].role is StageRole.SINK]
    start = {}
    for stream in range(len(plan.spec.sources)):
        reached = [sink.name for sink in sinks if stream in plan.streams_of(sink.name)]
        known = [acknowledged.get(name, {}).get(stream, 0) for name in reached]
        start[stream] = _with_checkpoints(plan, stream, min(known, default=0), labels)
    return start


def _with_checkpoints(plan: RunPlan, stream: int, start: int, labels: Labels) -> int:
    """Return the last frame up to one before which every stage with state has a checkpoint.

    Before frame 0 every stage has one: it starts without state.
    """
    stateful = [
        (worker.name, index)
        for worker in plan.workers
        if stream in plan.streams_of(worker.name)
        for index, stage in enumerate(worker.stages)
        if stage.is_stateful
    ]
    known = [labels.get(key, {}).get(stream, frozenset()) | {0} for key in stateful]
    common = frozenset.intersection(*known) if known else frozenset({start})
    return max(number for number in common if number <= start)
