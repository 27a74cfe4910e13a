"""Check a pipeline before anything of it starts: names, edges, ports, functions and files."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final

from fairlead.errors import FairleadError, PipelineError
from fairlead.pipeline.endpoints.options import objections
from fairlead.pipeline.endpoints.sinks import SINKS
from fairlead.pipeline.endpoints.sources import SOURCES
from fairlead.pipeline.hosts.placement import library_faults, placement_faults
from fairlead.pipeline.load import declared_ports, keeps_state, makes_several
from fairlead.pipeline.models.ports import ONNX_RULES, preparation_hint, with_model_ports
from fairlead.pipeline.ports import PortKind, PortType
from fairlead.pipeline.programs.check import EXEC_RULES, program_ports
from fairlead.pipeline.spec import CanarySpec, PipelineSpec, StageKind, StageRole, StageSpec
from fairlead.targets import LoadError, load_target

MOST_STREAMS: Final = 64


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, where, and what to do."""

    where: str
    what: str
    hint: str = ""


def check_pipeline(spec: PipelineSpec) -> tuple[PipelineSpec, list[Problem]]:
    """Return the pipeline with the ports that its functions declare, and everything that is wrong with it."""
    problems = [*_check_names(spec)]
    if problems:
        return spec, problems
    problems += [*_check_graph(spec)]
    faults = (*placement_faults(spec), *library_faults(spec))
    problems += [Problem(_where(spec, line), what, hint) for line, what, hint in faults]
    stages = []
    for stage in spec.stages:
        checked, found = _check_stage(spec, stage)
        stages.append(checked)
        problems += found
    spec = replace(spec, stages=tuple(stages))
    return spec, [*problems, *check_edges(spec)]


def check_structure(spec: PipelineSpec) -> list[Problem]:
    """Return what is wrong with a pipeline whatever its code and the machine: nothing is loaded or asked."""
    problems = [*_check_names(spec)]
    if problems:
        return problems
    problems += [*_check_graph(spec)]
    problems += [Problem(_where(spec, line), what, hint) for line, what, hint in placement_faults(spec)]
    for stage in spec.stages:
        problems += _as_problems(spec, stage, _stage_faults(spec, stage))
    return [*problems, *check_edges(spec)]


def require_sound(spec: PipelineSpec) -> PipelineSpec:
    """Return the checked pipeline; PipelineError with its first problem."""
    spec, problems = check_pipeline(spec)
    if problems:
        first = problems[0]
        more = f" (and {len(problems) - 1} more: fairlead pipeline check)" if len(problems) > 1 else ""
        raise PipelineError(f"{first.where}: {first.what}{more}", first.hint)
    return spec


def _where(spec: PipelineSpec, line: int) -> str:
    return f"{spec.path}:{line}" if spec.path else f"pipeline {spec.name}"


def _check_names(spec: PipelineSpec) -> Iterator[Problem]:
    names = [stage.name for stage in spec.stages]
    for index, stage in enumerate(spec.stages):
        if stage.name in names[:index]:
            yield Problem(
                _where(spec, stage.line), f"two stages are named {stage.name}", "rename one of them"
            )
    seen = set[str]()
    for edge in spec.edges:
        for name in (edge.source, edge.target):
            if name not in names:
                near = get_close_matches(name, names, 1)
                hint = f"did you mean {near[0]}?" if near else f"stages: {', '.join(names)}"
                yield Problem(_where(spec, edge.line), f"edge {edge.name}: no stage {name}", hint)
        if edge.name in seen:
            yield Problem(_where(spec, edge.line), f"edge {edge.name} is there twice", "remove one of them")
        seen.add(edge.name)


def _check_graph(spec: PipelineSpec) -> Iterator[Problem]:
    if not spec.sources:
        yield Problem(
            _where(spec, 1), "no stage is a source", "add a stage with source: numbers or another one"
        )
    if len(spec.sources) > MOST_STREAMS:
        yield Problem(_where(spec, 1), f"{len(spec.sources)} sources", f"use at most {MOST_STREAMS}")
    for stage in spec.stages:
        ins, outs = spec.inputs_of(stage.name), spec.outputs_of(stage.name)
        where = _where(spec, stage.line)
        if stage.role is StageRole.SOURCE and ins:
            yield Problem(where, f"source {stage.name} has an input", f"remove the edge {ins[0].name}")
        if stage.role is StageRole.SINK and outs:
            yield Problem(where, f"sink {stage.name} has an output", f"remove the edge {outs[0].name}")
        if stage.role is not StageRole.SOURCE and not ins:
            yield Problem(where, f"stage {stage.name} has no input", f"add an edge with to: {stage.name}")
        if stage.role is not StageRole.SINK and not outs:
            yield Problem(where, f"stage {stage.name} has no output", f"add an edge with from: {stage.name}")
    cycle = _find_cycle(spec)
    if cycle:
        way = " -> ".join(cycle)
        yield Problem(_where(spec, spec.stage(cycle[0]).line), f"a cycle: {way}", "remove one of its edges")


def _find_cycle(spec: PipelineSpec) -> list[str]:
    """Return the stages of a cycle; empty: there is none."""
    left = {stage.name for stage in spec.stages}
    while True:
        free = {name for name in left if not any(edge.source in left for edge in spec.inputs_of(name))}
        if not free:
            break
        left -= free
    if not left:
        return []
    way = [min(left)]
    while way[-1] not in way[:-1]:
        way.append(next(edge.source for edge in spec.inputs_of(way[-1]) if edge.source in left))
    return way[way.index(way[-1]) :][::-1]


def _check_stage(spec: PipelineSpec, stage: StageSpec) -> tuple[StageSpec, list[Problem]]:
    where = _where(spec, stage.line)
    faults = (*_stage_faults(spec, stage), *_missing_cores(stage))
    problems = _as_problems(spec, stage, faults)
    if problems or stage.on != "local":  # the host of the stage is asked before a run starts
        return stage, problems
    try:
        return load_stage(spec, stage, len(spec.inputs_of(stage.name))), []
    except FairleadError as error:
        hint = error.hint or "correct the program"
        return stage, [Problem(where, f"stage {stage.name}: {error}", hint)]
    except LoadError as error:
        return stage, [Problem(where, f"stage {stage.name}: {error}", "correct the name, or the module")]
    except (OSError, ValueError) as error:
        return stage, [Problem(where, f"stage {stage.name}: {error}", "correct its options")]


def _as_problems(spec: PipelineSpec, stage: StageSpec, faults: Iterable[tuple[str, str]]) -> list[Problem]:
    return [Problem(_where(spec, stage.line), f"stage {stage.name}: {what}", hint) for what, hint in faults]


def _stage_faults(spec: PipelineSpec, stage: StageSpec) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a stage by itself, and what to do."""
    if stage.role is StageRole.EXEC:
        yield from objections(stage.options, EXEC_RULES)
        if stage.batch:
            yield "a program has no batches", "remove the key; the option frames sends it several frames"
    elif stage.role is not StageRole.RUN:
        table: dict[str, Any] = dict(SOURCES if stage.role is StageRole.SOURCE else SINKS)
        if stage.target not in table:
            near = get_close_matches(stage.target, table, 1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(table)}"
            yield f"no {stage.role} {stage.target!r}", hint
        else:
            yield from objections(stage.options, table[stage.target].rules)
        if stage.is_replicated or stage.batch:
            yield f"a {stage.role} has neither replicas nor batches", "remove the key"
    elif stage.kind is StageKind.ONNX:
        yield from objections(stage.options, ONNX_RULES)
    elif stage.options:
        yield "a function takes no options", "remove the key"
    if len(spec.inputs_of(stage.name)) > 1 and (stage.is_replicated or stage.batch):
        yield "a stage that joins has neither replicas nor batches", "add a stage behind it"
    if stage.scale is not None and not spec.is_chain:
        what = "replicas that follow the load need a chain: stages that join or branch cannot move"
        yield what, "state a number of replicas"
    if stage.canary is not None:
        yield from _canary_faults(spec, stage, stage.canary)


def _canary_faults(spec: PipelineSpec, stage: StageSpec, canary: CanarySpec) -> Iterator[tuple[str, str]]:
    if not stage.is_replicated or not spec.is_chain:
        yield "a canary is one more of several replicas, in a chain", "state replicas: 2, or remove the key"
    if canary.host not in [host.name for host in spec.hosts if host.address]:
        yield f"canary: no host is named {canary.host!r}", "add it to hosts, with its address"


def _missing_cores(stage: StageSpec) -> Iterator[tuple[str, str]]:
    missing = sorted(set(stage.cores) - os.sched_getaffinity(0))
    if missing:
        yield f"cores {missing} are not there", f"choose from {sorted(os.sched_getaffinity(0))}"


def load_stage(spec: PipelineSpec, stage: StageSpec, inputs: int) -> StageSpec:
    """Return a stage with the ports that its target declares; FairleadError, ValueError or OSError.

    `inputs` is the number of edges that end at it.
    """
    if stage.role is StageRole.SOURCE:
        kind = SOURCES[stage.target]
        kind.open(stage.options, spec.folder)
        return replace(stage, outputs=narrow(stage.outputs, kind.outputs(stage.options, spec.folder)))
    if stage.role is StageRole.SINK:
        SINKS[stage.target].check(stage.options, spec.folder)
        return stage
    if stage.role is StageRole.EXEC:
        hello = program_ports(stage, spec.folder, inputs)
        return replace(
            stage, inputs=narrow(stage.inputs, hello.inputs), outputs=narrow(stage.outputs, hello.outputs)
        )
    if stage.kind is StageKind.ONNX:
        model = with_model_ports(stage, spec.folder, inputs)
        return replace(
            model, inputs=narrow(stage.inputs, model.inputs), outputs=narrow(stage.outputs, model.outputs)
        )
    function = load_target(stage.target, spec.folder)
    _check_several(stage, function)
    if keeps_state(function):
        if stage.is_replicated or stage.batch:
            raise ValueError(
                f"{stage.target} keeps state for each stream: it has neither replicas nor batches"
            )
        stage = replace(stage, is_stateful=True)
    ports = declared_ports(function)
    return replace(
        stage, inputs=narrow(stage.inputs, ports.inputs), outputs=narrow(stage.outputs, ports.outputs)
    )


def _check_several(stage: StageSpec, function: Callable[..., Any]) -> None:
    if makes_several(function) and (stage.batch or (stage.is_replicated and stage.ordered)):
        raise ValueError(f"{stage.target} is a generator: it has neither batches nor ordered replicas")


def narrow(stated: PortType, declared: PortType) -> PortType:
    """Return the type that the file states, or else the one of the function; ValueError if they differ."""
    if not stated.accepts(declared):
        raise ValueError(f"the file says {stated}, and the stage itself {declared}")
    return declared if stated.kind is PortKind.ANY else stated


def check_edges(spec: PipelineSpec) -> Iterator[Problem]:
    """Yield the edges whose two ends do not fit together."""
    for edge in spec.edges:
        start, end = spec.stage(edge.source), spec.stage(edge.target)
        made, wanted = start.outputs, end.inputs
        if start.is_replicated and end.is_replicated:
            yield Problem(
                _where(spec, edge.line),
                f"edge {edge.name}: replicas follow replicas: nothing puts the frames in order",
                "call both functions in one stage, or put a stage between them",
            )
        if not wanted.accepts(made):
            yield Problem(
                _where(spec, edge.line),
                f"edge {edge.name}: {edge.source} makes {made}, and {edge.target} takes {wanted}",
                preparation_hint(made, end) or "change one of the two ports, or add a stage between them",
            )
