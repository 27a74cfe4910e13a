"""Check where the stages of a pipeline are put, and how frames travel between hosts."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from fairlead.pipeline.link.jpeg import LIBRARIES, available
from fairlead.pipeline.ports import PortKind
from fairlead.pipeline.spec import PipelineSpec, StageSpec

_ENCODINGS: Final = ("", "jpeg")


def placement_faults(spec: PipelineSpec) -> Iterator[tuple[int, str, str]]:
    """Yield the line, what is wrong there, and what to do."""
    for stage in spec.stages:
        if not spec.hosts_of(stage):
            yield stage.line, *_no_host(spec, stage)
    for edge in spec.edges:
        if edge.encode not in _ENCODINGS:
            yield edge.line, f"edge {edge.name}: encode {edge.encode!r} is not known", "write encode: jpeg"
        elif edge.encode:
            made = spec.stage(edge.source).outputs
            if made.kind is not PortKind.IMAGE:
                hint = f"state out: Image on stage {edge.source}, or remove encode"
                yield edge.line, f"edge {edge.name}: {made} cannot travel as JPEG", hint


def library_faults(spec: PipelineSpec) -> Iterator[tuple[int, str, str]]:
    """Yield the edges for which this machine lacks a library."""
    for edge in spec.edges:
        if edge.encode in _ENCODINGS[1:] and not available():
            hint = f"install {' or '.join(LIBRARIES.values())} on both hosts"
            yield edge.line, f"edge {edge.name}: no library for JPEG is installed", hint


def _no_host(spec: PipelineSpec, stage: StageSpec) -> tuple[str, str]:
    """Return why a stage has no host, and what to do."""
    away = [host.name for host in spec.hosts if host.matches(stage.on)]
    if away:
        what = f"stage {stage.name}: host {away[0]} has no address, only a class"
        return what, "give it an address, or put the stage on another host"
    return f"stage {stage.name}: no host is {stage.on!r}", _near(spec, stage)


def _near(spec: PipelineSpec, stage: StageSpec) -> str:
    names = [host.name for host in spec.hosts] + [host.host_class for host in spec.hosts if host.host_class]
    near = get_close_matches(stage.on, names, 1)
    if near:
        return f"did you mean {near[0]}?"
    return f"hosts: {', '.join(names)}" if names else "add hosts: with its name and address"
