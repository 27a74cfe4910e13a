"""What a run does, in sentences: its rate, what limits it, how old frames are, what is dropped. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fairlead.units import format_duration, pluralize
from fairlead.whatif.pipeline.findings import FindingSeverity, PipelineFinding
from fairlead.whatif.pipeline.observed import Json

OLD: Final = 1.0
"""Seconds of age from which frames of an edge are worth a warning; the alert allows ten."""
_INTENDED: Final = ("sampled",)
"""Drops that the file asks for, whatever the load."""
_SHOWN: Final = 0.05
"""Frames a second below which a rate is none."""


def run_findings(run: Json) -> Iterator[PipelineFinding]:
    """Yield what is to be said of a run."""
    if not run:
        return
    if not run.get("open", True):
        yield PipelineFinding(FindingSeverity.ERROR, "run", "", "not every stage is open yet: no frame flows")
    yield from _stall(run)
    yield limit(run)
    for host, state in (run.get("hosts") or {}).items():
        if not state.get("connected", True):
            yield PipelineFinding(
                FindingSeverity.ERROR, "host", host, f"the coordinator has no connection to {host}"
            )
    for stage in run["stages"]:
        yield from _stage_findings(stage)
        yield from _canary_findings(stage)
    for edge in run["edges"]:
        yield from _edge_findings(edge)
    for scaled in run.get("scaling") or ():
        yield from _scaling_findings(scaled)
    yield from _move_findings(run)


def total_rate(run: Json, role: str) -> float:
    """Return the frames a second that stages of a role hand on, or take."""
    return float(sum(stage["rate"] for stage in run["stages"] if stage["role"] == role))


def drop_rate(edge: Json) -> float:
    """Return the frames a second that an edge drops, those aside that the file asks to drop."""
    lost = {reason: number for reason, number in edge["dropped"].items() if reason not in _INTENDED}
    total = sum(edge["dropped"].values())
    share = sum(lost.values()) / total if total else 0.0
    return float(edge.get("drop_rate", 0.0)) * share


def limit(run: Json) -> PipelineFinding:
    """Return what limits a run."""
    stages = {stage["name"]: stage for stage in run["stages"]}
    name = run.get("bottleneck")
    if name in stages:
        stage = stages[name]
        times = stage["times"]["process"]
        per_call = f", {_time(times['sum'] / times['count'])} a call" if times["count"] else ""
        text = f"{name} limits the run: busy for {stage['busy']:.0%} of the time{per_call}"
        return PipelineFinding(FindingSeverity.INFO, "stage", str(name), text)
    if (link := slow_link(run)) is not None:
        one, other = link["from"], link["to"]
        text = f"the link of {edge_name(link)} limits the run: {one} waits to send, {other} for frames"
        return PipelineFinding(FindingSeverity.WARNING, "edge", edge_name(link), text)
    return PipelineFinding(
        FindingSeverity.INFO, "run", "", "no stage limits the run: every stage waits for frames"
    )


def slow_link(run: Json) -> Json | None:
    """Return the edge between hosts whose sender waits to send while its receiver waits for frames."""
    stages = {stage["name"]: stage for stage in run["stages"]}
    edges: Sequence[Json] = run["edges"]
    for edge in edges:
        one, other = stages[edge["from"]], stages[edge["to"]]
        if one["hosts"] != other["hosts"] and one["blocked"] > 0.5 and other["waiting"] > 0.5:
            return edge
    return None


def edge_name(edge: Json) -> str:
    """Return an edge as it is shown."""
    return f"{edge['from']}->{edge['to']}"


def _stall(run: Json) -> Iterator[PipelineFinding]:
    made, taken = total_rate(run, "source"), total_rate(run, "sink")
    if run.get("open", True) and made > _SHOWN and taken <= _SHOWN:
        text = f"sources make {made:.1f} frames/s, and no sink takes one"
        yield PipelineFinding(FindingSeverity.WARNING, "run", "", text)


def _stage_findings(stage: Json) -> Iterator[PipelineFinding]:
    name = stage["name"]
    if stage["failed"]:
        text = f"{name} has failed with {pluralize(stage['failed'], 'frame')}, which were skipped"
        yield PipelineFinding(FindingSeverity.WARNING, "stage", name, text)
    if stage["restarts"]:
        text = f"processes of {name} were started again: {pluralize(stage['restarts'], 'time')}"
        yield PipelineFinding(FindingSeverity.WARNING, "stage", name, text)
    if stage.get("dropped"):
        text = f"{name} dropped frames before they entered the pipeline: {_reasons(stage['dropped'])}"
        yield PipelineFinding(FindingSeverity.WARNING, "stage", name, text)


def _canary_findings(stage: Json) -> Iterator[PipelineFinding]:
    """Yield what a canary of a stage takes, while an update tries it."""
    for each in stage.get("versions") or ():
        if each["version"] == "canary":
            taken = f"{pluralize(each['in'], 'frame')} taken, {each['failed']} failed"
            text = (
                f"a new version of {stage['name']} is tried with {each['percent']} % of its frames: {taken}"
            )
            yield PipelineFinding(FindingSeverity.INFO, "stage", stage["name"], text)


def _edge_findings(edge: Json) -> Iterator[PipelineFinding]:
    name, size = edge_name(edge), f"{edge['depth']} of {edge['size']} held"
    if (edge["depth"] or edge["rate"]) and edge["age"] >= OLD:
        text = f"frames are {format_duration(edge['age'])} old when {edge['to']} takes them ({name}, {size})"
        yield PipelineFinding(FindingSeverity.WARNING, "edge", name, text)
    if not edge["dropped"]:
        return
    now = f" {edge.get('drop_rate', 0.0):.1f} frames/s now;" if edge.get("drop_rate") else ""
    text = f"{name} drops{now} since the start: {_reasons(edge['dropped'])}"
    yield PipelineFinding(
        FindingSeverity.WARNING if drop_rate(edge) > _SHOWN else FindingSeverity.INFO, "edge", name, text
    )


def _move_findings(run: Json) -> Iterator[PipelineFinding]:
    """Yield the last move, and what a run that follows its file says."""
    if moves := run.get("moves"):
        last = moves[-1]
        where = ", ".join(map(_moved, last["stages"]))
        text = f"moved {where} at frame {last['sequence']}: {last['reason']}"
        yield PipelineFinding(FindingSeverity.INFO, "run", "", text)
    follow: Mapping[str, Any] = run.get("follow") or {}
    if follow.get("moving"):
        yield PipelineFinding(
            FindingSeverity.INFO, "run", "", "stages move to the places of the changed file"
        )
    if follow.get("pending"):
        text = f"a change of the file waits until the run is started again: {follow['pending']}"
        yield PipelineFinding(FindingSeverity.WARNING, "run", "", text)
    if follow.get("failed"):
        text = f"a change of the file was given up: {follow['failed']}"
        yield PipelineFinding(FindingSeverity.WARNING, "run", "", text)


def _moved(stage: Json) -> str:
    if "replicas" in stage:
        before, after = stage["replicas"]
        return f"{stage['name']} from {before} to {pluralize(after, 'replica')}"
    return f"{stage['name']} from {stage['from']} to {stage['to']}"


def _scaling_findings(scaled: Json) -> Iterator[PipelineFinding]:
    """Yield how many replicas a stage has by its load, why, and what keeps it from more."""
    name, last = scaled["stage"], scaled.get("last")
    text = f"{name} has {pluralize(scaled['replicas'], 'replica')} of {scaled['min']} to {scaled['max']}"
    if last:
        text += f", changed from {last['from']} to {last['to']}: {last['reason']}"
    yield PipelineFinding(FindingSeverity.INFO, "stage", name, text)
    if held := scaled.get("held_by"):
        text = f"{name} should have more replicas than {scaled['replicas']}: {held}"
        yield PipelineFinding(FindingSeverity.WARNING, "stage", name, text)


def _reasons(dropped: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {reason}" for reason, number in dropped.items() if number)


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else format_duration(seconds)
