"""A ModelProfile: the measurements of one model on one setup, as the API server stores them.

Fields are those of the values in `fairlead.calibration`, under the same names: `convert.py` converts one into
the other. Limits and rules are in the chart's definition of the kind.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import field

from fairlead.cluster.kinds import Kind
from fairlead.cluster.meta import Object, ObjectPart
from fairlead.keys import DOMAIN
from fairlead.units import Bytes, Seconds, Watts


class SetupPart(ObjectPart, frozen=True):
    """The fields of Setup."""

    device: str
    runtime: str
    version: str
    precision: str
    threads: int = 0
    effective_ops: float | None = None
    link_bits_per_second: float | None = None
    power: Watts | None = None


class WorkPart(ObjectPart, frozen=True):
    """The fields of OperatorWork."""

    operators: int = 0
    macs: int = 0
    weight_bytes: int = 0
    largest_weight_bytes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    smooth_bytes: int = 0
    kernels: int = 0


class FeaturesPart(ObjectPart, frozen=True):
    """The fields of Features, without the digest."""

    batch: int
    groups: int
    peak_bytes: Bytes
    work: Mapping[str, WorkPart] = field(default_factory=dict)
    input_bytes: Bytes = Bytes(0)
    output_bytes: Bytes = Bytes(0)


class MeasuredPart(ObjectPart, frozen=True):
    """The fields of MeasuredRun."""

    seconds: Seconds
    p90: Seconds
    runs: int
    wall: Seconds
    peak_bytes: Bytes
    waited: float = 0.0
    base_bytes: Bytes | None = None
    watts: Watts | None = None
    noise: float | None = None
    load: float | None = None
    made: str = ""


class LatencyPart(ObjectPart, frozen=True):
    """The fields of Latency."""

    median: Seconds
    p90: Seconds
    count: int
    ratio: float | None = None


class ObservedUsePart(ObjectPart, frozen=True):
    """The fields of ObservedUse that are not the object's own."""

    image: str = ""
    peak_bytes: Bytes | None = None
    latency: LatencyPart | None = None
    watts: Watts | None = None
    ramp: Seconds | None = None


class FilePart(ObjectPart, frozen=True):
    """What a model's file says of it beyond its work."""

    format: str = ""
    precision: str = ""
    exact: bool = True
    """False: its amounts are lower bounds."""
    unsupported: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By runtime: why the model does not run there unchanged."""
    scope: str = ""
    """What one run is, where that is less than it seems."""


class ModelProfileSpec(ObjectPart, frozen=True):
    """A model on a setup; `seen` comes from real use, `file` from the model alone, the rest from a trial."""

    version: int
    setup: SetupPart
    host: str
    model: str
    digest: str
    made: str
    node: str = ""
    """The node that wrote it last."""
    features: FeaturesPart | None = None
    measured: MeasuredPart | None = None
    reason: str = ""
    seen: ObservedUsePart | None = None
    file: FilePart | None = None


class ModelProfile(Object, frozen=True, kw_only=True):
    """The measurements of one model on one setup."""

    spec: ModelProfileSpec


MODEL_PROFILES: Final = Kind(
    DOMAIN, "v1alpha1", "modelprofiles", False, ModelProfile, "ModelProfile", whole=True
)
"""Served where the chart is installed."""
