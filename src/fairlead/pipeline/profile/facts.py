"""A profile of a pipeline as data, and its file."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from fairlead.compat import StrEnum
from fairlead.formats import JSON, Codec, VersionedFormat


class Basis(StrEnum):
    """Where a number comes from."""

    MEASURED = "measured"
    PREDICTED = "predicted"


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """A node: this machine (`local`), a host of the file, or a class of devices that was not reached."""

    name: str
    cores: int
    memory_bytes: int
    machine_class: str = ""
    basis: Basis = Basis.MEASURED


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """A link in one direction."""

    source: str
    target: str
    bytes_per_s: float
    delay_s: float


@dataclass(frozen=True, slots=True)
class StageCost:
    """What one value costs a stage on one node."""

    seconds: float
    """The mean, with the most extreme calls clipped."""
    p90: float
    memory_bytes: int
    """Resident in its process, at the end."""
    frames: int = 0
    """How many were measured."""
    basis: Basis = Basis.MEASURED
    confidence: str = ""
    """Of a prediction."""
    p10: float | None = None
    """Of a measurement; a prediction has none."""


@dataclass(frozen=True, slots=True)
class StageFacts:
    """A stage on every node that it was measured on or predicted for."""

    name: str
    rate: float
    """Values that reach it for each frame of the source: stages may filter, or make several."""
    costs: Mapping[str, StageCost] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)
    """By node: why there is no cost."""


@dataclass(frozen=True, slots=True)
class EdgeFacts:
    """What travels on an edge."""

    source: str
    target: str
    bytes: float
    """Of one value, as a link carries it; the mean."""
    rate: float
    """Values for each frame of the source."""
    encode: str = ""


@dataclass(frozen=True, slots=True)
class PipelineProfile:
    """What a plan needs to know of a pipeline, its machines and their links."""

    pipeline: str
    machines: tuple[MachineFacts, ...]
    links: tuple[LinkFacts, ...]
    stages: tuple[StageFacts, ...]
    edges: tuple[EdgeFacts, ...]
    notes: tuple[str, ...] = ()
    """What could not be found out."""

    def stage(self, name: str) -> StageFacts | None:
        """Return the facts of a stage; None: it was not profiled."""
        return next((stage for stage in self.stages if stage.name == name), None)

    def machine(self, name: str) -> MachineFacts | None:
        """Return a machine by name; None: it was not profiled."""
        return next((machine for machine in self.machines if machine.name == name), None)


def to_document(profile: PipelineProfile) -> dict[str, Any]:
    """Return a profile as the body of its file."""
    return asdict(profile)


def _decode(body: Any) -> PipelineProfile:
    profile = PipelineProfile(
        str(body["pipeline"]),
        tuple(MachineFacts(**each | {"basis": Basis(each["basis"])}) for each in body["machines"]),
        tuple(LinkFacts(**each) for each in body["links"]),
        tuple(_decode_stage(each) for each in body["stages"]),
        tuple(EdgeFacts(**each) for each in body["edges"]),
        tuple(str(note) for note in body["notes"]),
    )
    _check_numbers(profile)
    return profile


def _decode_stage(body: Any) -> StageFacts:
    costs = {
        node: StageCost(**cost | {"basis": Basis(cost["basis"])}) for node, cost in body["costs"].items()
    }
    return StageFacts(**body | {"costs": costs, "unknown": dict(body["unknown"])})


def _check_numbers(profile: PipelineProfile) -> None:
    """Refuse what a plan cannot count with: a person may have changed the file."""
    costs = [cost for stage in profile.stages for cost in stage.costs.values()]
    numbers = [
        *(link.delay_s for link in profile.links),
        *(amount for cost in costs for amount in (cost.seconds, cost.p90, cost.memory_bytes)),
        *(amount for machine in profile.machines for amount in (machine.cores, machine.memory_bytes)),
        *(amount for edge in profile.edges for amount in (edge.bytes, edge.rate)),
        *(stage.rate for stage in profile.stages),
    ]
    if not all(0 <= number < math.inf for number in numbers):
        raise ValueError("a number that is negative or endless")
    if not all(0 < link.bytes_per_s < math.inf for link in profile.links):
        raise ValueError("a link without a rate")


PIPELINE_PROFILES: Final[VersionedFormat[PipelineProfile]] = VersionedFormat(
    "pipeline-profile", JSON, {1: Codec(to_document, _decode)}
)
