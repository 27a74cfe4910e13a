"""Which changes of its file a running pipeline can follow, and why it cannot follow others. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from fairlead.pipeline.spec import EdgeSpec, PipelineSpec, StageRole, StageSpec

_ENDS = (StageRole.SOURCE, StageRole.SINK)


@dataclass(frozen=True, slots=True)
class LiveChange:
    """A change that a pipeline carries out while it runs."""

    stages: tuple[str, ...]
    """Those that get new processes; empty: hosts without stages have changed, or names alone."""


@dataclass(frozen=True, slots=True)
class ChangeRefusal:
    """A change that waits until the run is started again."""

    reason: str


def live_change(old: PipelineSpec, new: PipelineSpec) -> LiveChange | ChangeRefusal:
    """Return which stages move when a pipeline becomes another one, or why that is not done live.

    Both are as a file or a document has them, before any code was asked for its ports, and sound
    by `check_structure`.
    """
    reason = next(_refusals(old, new), None)
    return LiveChange(_moving(old, new)) if reason is None else ChangeRefusal(reason)


def inner_stages(spec: PipelineSpec) -> frozenset[str]:
    """Return the stages that can move while a pipeline runs: those between its sources and sinks."""
    return frozenset(each.name for each in spec.stages if each.role not in _ENDS)


def with_known_ports(new: PipelineSpec, running: PipelineSpec, moving: tuple[str, ...]) -> PipelineSpec:
    """Return a changed pipeline with what is known of the stages that stay, and of the edges.

    `running` is the pipeline of the run, whose stages were asked for their ports.
    """
    stages = [
        each if each.name in moving else _with_ports(each, running.stage(each.name)) for each in new.stages
    ]
    return replace(new, stages=tuple(stages), edges=running.edges)


def with_present_replicas(new: PipelineSpec, running: PipelineSpec) -> PipelineSpec:
    """Return a pipeline of a file with the replicas that a run has now, where they follow the load."""
    known = {each.name: each.replicas for each in running.stages if each.scale is not None}
    return replace(new, stages=tuple(_scaled(each, known.get(each.name)) for each in new.stages))


def _scaled(stage: StageSpec, replicas: int | None) -> StageSpec:
    if stage.scale is None or replicas is None:
        return stage
    return replace(stage, replicas=min(max(replicas, stage.scale.least), stage.scale.most))


def _with_ports(stage: StageSpec, known: StageSpec) -> StageSpec:
    return replace(stage, inputs=known.inputs, outputs=known.outputs, is_stateful=known.is_stateful)


def _refusals(old: PipelineSpec, new: PipelineSpec) -> Iterator[str]:
    if old.name != new.name:
        yield f"the pipeline {old.name} is named {new.name} now"
    if old.fuse != new.fuse:
        yield "fuse has changed"
    if (names := [each.name for each in new.stages]) != [each.name for each in old.stages]:
        yield _changed_names(old, names)
        return
    if [*map(_contract, old.edges)] != [*map(_contract, new.edges)]:
        yield "an edge has changed"
    for before, after in zip(old.stages, new.stages, strict=True):
        yield from _stage_refusals(old, new, before, after)
    moving = _moving(old, new)
    if moving and not new.is_chain:
        yield f"stage {moving[0]} has changed, and stages that join or branch cannot move"


def _stage_refusals(
    old: PipelineSpec, new: PipelineSpec, before: StageSpec, after: StageSpec
) -> Iterator[str]:
    if after.role is not before.role and {before.role, after.role} & {*_ENDS}:
        yield f"stage {after.name} is a {after.role} now"
    elif after.role in _ENDS:
        if before.settings != after.settings:
            yield f"{after.role} {after.name} has changed: {_difference(before, after)}"
        elif _addresses(old, before) != _addresses(new, after):
            yield f"{after.role} {after.name} is at another address: sources and sinks do not move"
    elif before.ordered != after.ordered:
        yield f"stage {after.name} has changed: ordered"
    elif before.is_replicated != after.is_replicated:
        yield (
            f"stage {after.name} has {_number(after)} in place of {_number(before)} replicas: "
            "from one to several, and back, its neighbours change as well"
        )


def _changed_names(old: PipelineSpec, names: list[str]) -> str:
    known = [each.name for each in old.stages]
    for name in names:
        if name not in known:
            return f"stage {name} is new"
    gone = [name for name in known if name not in names]
    return f"stage {gone[0]} is gone" if gone else "the stages are in another order"


def _moving(old: PipelineSpec, new: PipelineSpec) -> tuple[str, ...]:
    """Return the stages that are at another address, or have other settings."""
    return tuple(
        after.name
        for before, after in zip(old.stages, new.stages, strict=True)
        if before.settings != after.settings or _addresses(old, before) != _addresses(new, after)
    )


def _addresses(spec: PipelineSpec, stage: StageSpec) -> list[str]:
    """Return where a stage may be; replicas whose number follows the load take all of these in turn."""
    if stage.scale is None:
        return [address for _, address in spec.places_of(stage)]
    every = replace(stage, replicas=len(spec.hosts_of(stage)))
    return sorted(address for _, address in spec.places_of(every))


def _number(stage: StageSpec) -> str:
    scale = stage.scale
    return str(stage.replicas) if scale is None else f"{scale.least} to {scale.most}"


def _contract(edge: EdgeSpec) -> EdgeSpec:
    return replace(edge, line=0)


def _difference(before: StageSpec, after: StageSpec) -> str:
    """Return the first key in which a stage differs, as a file names it."""
    words = {"inputs": "in", "outputs": "out", "role": str(after.role), "target": str(after.role)}
    old, new = before.settings, after.settings
    names = [each.name for each in fields(StageSpec) if getattr(old, each.name) != getattr(new, each.name)]
    return words.get(names[0], names[0])
