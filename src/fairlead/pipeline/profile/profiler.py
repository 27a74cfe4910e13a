"""Profile a pipeline: each stage on each machine, in the order of its frames."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from fairlead.errors import FairleadError, PipelineError
from fairlead.pipeline.frame import Frame, FrameError, encode_header
from fairlead.pipeline.link.jpeg import to_jpeg
from fairlead.pipeline.profile.facts import EdgeFacts, PipelineProfile, StageCost, StageFacts
from fairlead.pipeline.profile.machine import (
    MOST_EDGE,
    WARM,
    MeasureRequest,
    ProfiledMachine,
    ReachedMachines,
    StageSample,
)
from fairlead.pipeline.profile.record import read_frames
from fairlead.pipeline.spec import EdgeSpec, PipelineSpec, StageRole, StageSpec

FRAMES: Final = 30
SECONDS: Final = 10.0
_SAMPLED: Final = 8
"""Frames of which the size on an edge is the mean."""


@dataclass(frozen=True, slots=True)
class ProfileSettings:
    """How much is measured."""

    frames: int = FRAMES
    """Of each stage, after the first few."""
    seconds: float = SECONDS
    """The limit for each stage on each machine."""


def profile_pipeline(
    spec: PipelineSpec,
    reached: ReachedMachines,
    folder: str,
    settings: ProfileSettings,
    on_step: Callable[[str], None] = lambda line: None,
) -> PipelineProfile:
    """Return the profile of a checked pipeline; `folder` holds what it records until then."""
    profiling = _Profiling(spec, reached, folder, settings, on_step, notes=list(reached.notes))
    facts = {
        stage.name: profiling.profile(stage) for stage in spec.in_order() if stage.role is not StageRole.SINK
    }
    edges = tuple(profiling.edge(edge) for edge in spec.edges if edge.source in profiling.records)
    return PipelineProfile(
        spec.name,
        tuple(machine.facts for machine in reached.machines.values()),
        reached.links,
        tuple(facts[stage.name] for stage in spec.stages if stage.name in facts),
        edges,
        tuple(profiling.notes),
    )


@dataclass(slots=True)
class _Profiling:
    """One profile, as it is made."""

    spec: PipelineSpec
    reached: ReachedMachines
    folder: str
    settings: ProfileSettings
    on_step: Callable[[str], None]
    notes: list[str]
    records: dict[str, str] = field(default_factory=dict)
    """By stage: what it made, on disk."""
    made: dict[str, float] = field(default_factory=dict)
    """By stage: values for each frame of the source."""

    def profile(self, stage: StageSpec) -> StageFacts:
        """Measure a stage on every machine that may run it; the first that can records what it makes."""
        inputs = [edge.source for edge in self.spec.inputs_of(stage.name)]
        rate = min((self.made.get(name, 0.0) for name in inputs), default=1.0)
        costs: dict[str, StageCost] = {}
        unknown: dict[str, str] = {}
        for name in _places(self.spec, stage, self.reached.machines):
            sample = StageSample(None)
            if name not in self.reached.machines:
                sample = StageSample(None, problem="the host was not reached")
            elif all(each in self.records for each in inputs):
                sample = self._measure(self.reached.machines[name], stage, inputs, rate)
            if sample.cost is None:
                unknown[name] = sample.problem or "no frame reached the stage"
            else:
                costs[name] = sample.cost
        _require_source(stage, costs, unknown)
        return StageFacts(stage.name, rate, costs, unknown)

    def edge(self, edge: EdgeSpec) -> EdgeFacts:
        """Return what travels on an edge, from what its first stage made."""
        with open(self.records[edge.source], "rb") as file:
            frames = [frame for frame, _ in zip(read_frames(file), range(_SAMPLED), strict=False)]
        encode = edge.encode
        try:
            sizes = [_wire_size(frame, encode) for frame in frames]
        except FrameError as error:
            self.notes.append(f"edge {edge.name}: {error}: its size is that of raw frames")
            encode, sizes = "", [_wire_size(frame, "") for frame in frames]
        return EdgeFacts(edge.source, edge.target, sum(sizes) / len(sizes), self.made[edge.source], encode)

    def _measure(
        self, machine: ProfiledMachine, stage: StageSpec, inputs: list[str], rate: float
    ) -> StageSample:
        self.on_step(f"{stage.name} on {machine.facts.name}")
        output = "" if stage.name in self.records else os.path.join(self.folder, f"{stage.name}.frames")
        order = MeasureRequest(
            stage,
            self.settings.frames + WARM,
            self.settings.seconds,
            next((at for at, each in enumerate(self.spec.sources) if each.name == stage.name), 0),
            MOST_EDGE if output else 0,
        )
        try:
            sample = machine.measure(order, [self.records[each] for each in inputs], output)
        except FairleadError as error:
            return StageSample(None, problem=str(error))
        if output and sample.made:
            self.records[stage.name] = output
            per_value = 1.0 if stage.role is StageRole.SOURCE else sample.made / sample.taken
            self.made[stage.name] = rate * per_value
        return sample


def _places(spec: PipelineSpec, stage: StageSpec, machines: Mapping[str, ProfiledMachine]) -> list[str]:
    """Return where a stage is measured: a source where it is, others where they may be."""
    if stage.role is StageRole.SOURCE:
        return [spec.hosts_of(stage)[0]]
    if stage.is_placed:
        return list(spec.hosts_of(stage))
    return list(machines)


def _require_source(stage: StageSpec, costs: Mapping[str, StageCost], unknown: Mapping[str, str]) -> None:
    if stage.role is StageRole.SOURCE and not costs:
        ((place, reason),) = unknown.items()
        raise PipelineError(
            f"source {stage.name} on {place}: {reason}", "without its frames no stage can be measured"
        )


def _wire_size(frame: Frame, encode: str) -> int:
    header = to_jpeg(frame)[0] if encode else frame.header
    return len(encode_header(header)) + sum(header.sizes)
