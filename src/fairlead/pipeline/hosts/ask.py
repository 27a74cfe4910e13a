"""Ask the hosts of a pipeline, before anything starts, whether they can load their stages."""

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from fairlead import __version__
from fairlead.errors import FairleadError
from fairlead.pipeline.check import Problem, check_edges, narrow
from fairlead.pipeline.control import stage_to_json
from fairlead.pipeline.frame import FrameError
from fairlead.pipeline.hosts.messages import CHECK
from fairlead.pipeline.hosts.probe import load_apart
from fairlead.pipeline.link.rpc import OpenedStream
from fairlead.pipeline.link.tls import HostTlsFiles
from fairlead.pipeline.link.wire import PROTOCOL, Hello, decode, encode
from fairlead.pipeline.ports import parse_port
from fairlead.pipeline.spec import LOCAL, HostSpec, PipelineSpec, StageSpec
from fairlead.targets import LoadError


@dataclass(frozen=True, slots=True)
class HostAnswers:
    """What the hosts say of a pipeline."""

    spec: PipelineSpec
    """With the ports that the functions on the hosts declare."""
    problems: tuple[Problem, ...]
    replayable: Mapping[str, bool] = field(default_factory=dict)
    """By source: whether it can be read again."""
    unreached: tuple[str, ...] = ()
    """The hosts that have not answered."""


def ask_hosts(
    spec: PipelineSpec, tls: HostTlsFiles | None, only: Collection[str] | None = None
) -> HostAnswers:
    """Return what the hosts of a pipeline say; only hosts with a stage are asked.

    `only` are stages that are asked for alone, on this machine as well, whose modules may have changed.
    """
    asked = [stage for stage in spec.stages if only is None or stage.name in only]
    machines = spec.hosts if only is None else (HostSpec(LOCAL, ""), *spec.hosts)
    wanted = [
        (host, stages)
        for host in machines
        if (stages := [stage for stage in asked if host.name in spec.loading_hosts(stage)])
    ]
    problems: list[Problem] = []
    loaded = {stage.name: stage for stage in spec.stages}
    replayable: dict[str, bool] = {}
    with ThreadPoolExecutor(max(1, len(wanted))) as pool:
        answers = list(pool.map(lambda pair: _ask(spec, pair[0], pair[1], tls), wanted))
    for (host, stages), answer in zip(wanted, answers, strict=True):
        place = f"{spec.path}:{host.line}" if spec.path else f"pipeline {spec.name}"
        problems += [replace(each, where=place) for each in answer.problems]
        for stage, body in zip(stages, answer.stages, strict=False):
            problems += _apply(spec, host, stage, body, loaded)
            replayable[stage.name] = bool(body.get("replayable", True))
    spec = replace(spec, stages=tuple(loaded.values()))
    unreached = tuple(host.name for (host, _), each in zip(wanted, answers, strict=True) if not each.reached)
    return HostAnswers(spec, (*problems, *(() if problems else check_edges(spec))), replayable, unreached)


@dataclass(frozen=True, slots=True)
class _Answer:
    problems: tuple[Problem, ...] = ()
    stages: tuple[dict[str, Any], ...] = ()
    reached: bool = True


def _load_here(question: dict[str, Any], folder: str) -> _Answer:
    try:
        return _Answer((), tuple(load_apart(question["stages"], question["inputs"], folder)))
    except LoadError as error:
        return _Answer((Problem("", str(error), "correct the stages, or their modules"),))


def _ask(spec: PipelineSpec, host: HostSpec, stages: list[StageSpec], tls: HostTlsFiles | None) -> _Answer:
    question = {
        "protocol": PROTOCOL,
        "version": __version__,
        "stages": [*map(stage_to_json, stages)],
        "inputs": [len(spec.inputs_of(stage.name)) for stage in stages],
    }
    if host.name == LOCAL:
        return _load_here(question, spec.folder)
    try:
        stream = OpenedStream(host.address, tls, CHECK, iter([encode(Hello(question))]))
        answer = decode(next(iter(stream), b""))
        stream.cancel()
        if not isinstance(answer, Hello):
            raise FrameError("an answer that makes no sense")
    except FairleadError as error:
        hint = "start fairlead pipeline worker there, and compare addresses and certificates"
        return _Answer((Problem("", f"host {host.name} at {host.address}: {error}", hint),), reached=False)
    theirs = answer.body.get("version")
    if theirs != __version__:
        what = f"host {host.name} has fairlead {theirs}, this machine {__version__}"
        return _Answer((Problem("", what, "install the same version on both"),))
    return _Answer((), tuple(answer.body.get("stages", ())))


def _apply(
    spec: PipelineSpec, host: HostSpec, stage: StageSpec, body: dict[str, Any], loaded: dict[str, StageSpec]
) -> list[Problem]:
    """Take over the ports of a stage, or return why the host cannot load it."""
    place = f"{spec.path}:{stage.line}" if spec.path else f"pipeline {spec.name}"
    if body.get("problem"):
        hint = "code is not sent: install the module there, or put the file into the folder of its worker"
        return [Problem(place, f"stage {stage.name} on host {host.name}: {body['problem']}", hint)]
    try:
        known = loaded[stage.name]
        loaded[stage.name] = replace(
            known,
            inputs=narrow(known.inputs, parse_port(body["inputs"])),
            outputs=narrow(known.outputs, parse_port(body["outputs"])),
            is_stateful=bool(body["stateful"]),
        )
    except (KeyError, ValueError) as error:
        return [Problem(place, f"stage {stage.name} on host {host.name}: {error}", "change one of the two")]
    return []
