"""Measured use of accelerators: of a whole device, and of each pod on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fairlead.compat import StrEnum
from fairlead.units import Bytes


class DeviceKey(NamedTuple):
    """An accelerator of a node."""

    node: str
    device: str
    """The id of the accelerator, as in its ResourceSlice."""


class PodDeviceKey(NamedTuple):
    """A pod, and one of the accelerators on which it was measured."""

    pod_uid: str
    node: str
    device: str


class UseFault(StrEnum):
    """Why a measurement counts as missing."""

    UNREACHABLE = "unreachable"
    """The source does not answer."""
    LAGGING = "lagging"
    """The source answers with values that are too old."""
    CLOCK_SKEW = "clock-skew"
    """A sample is from the future."""
    NOT_A_NUMBER = "not-a-number"
    OUT_OF_RANGE = "out-of-range"
    """A negative value, or more than the accelerator has."""
    DUPLICATE = "duplicate"
    """Two series answer for one accelerator or pod with different values."""
    GARBAGE = "garbage"
    """The answer is not what the source's protocol allows."""
    NO_SERIES = "no-series"
    """The source answers, but has no series of any known name."""
    LIMIT = "limit"
    """The answer has more series or bytes than are read."""
    RESET = "reset"
    """The times of a source, or the clock of the reader, went backwards."""


@dataclass(frozen=True, slots=True)
class UseSample:
    """One measurement; None: this value was not measured."""

    at: float
    """Seconds since the epoch, by the clock of the source."""
    memory: Bytes | None = None
    busy: float | None = None
    """The share of time with work, 0 to 1."""


@dataclass(frozen=True, slots=True)
class UseReport:
    """One refresh of all measurements; what is absent was not measured."""

    at: float
    """Seconds since the epoch, by the clock of the reader."""
    source: str = ""
    """`prometheus`, `agents` or `simulation`."""
    devices: Mapping[DeviceKey, UseSample] = field(default_factory=dict)
    pods: Mapping[PodDeviceKey, UseSample] = field(default_factory=dict)
    foreign: Mapping[DeviceKey, Bytes] = field(default_factory=dict)
    """Memory that processes outside pods hold."""
    faults: Mapping[UseFault, int] = field(default_factory=dict)
    """How many measurements each fault has cost; UNREACHABLE, LAGGING, GARBAGE: the whole report."""
    detail: str = ""
    """For people: the first fault in words, with the address and what to do."""


@dataclass(frozen=True, slots=True)
class ContainerUse:
    """What a container was measured to use of an accelerator of this machine; None: not measured."""

    pod_uid: str
    accelerator: str
    """The id of the accelerator."""
    namespace: str = ""
    """With `pod` and `container`, empty where the names are not known."""
    pod: str = ""
    container: str = ""
    memory: Bytes | None = None
    peak: Bytes | None = None
    """The largest `memory` while the pod lives."""
    busy: float | None = None
    """The share of time with work, 0 to 1."""


@dataclass(frozen=True, slots=True)
class AttributedUse:
    """The use of this machine's accelerators by container; what is absent was not measured."""

    up: bool = False
    """Whether the last reading succeeded."""
    containers: tuple[ContainerUse, ...] = ()
    foreign: Mapping[str, Bytes] = field(default_factory=dict)
    """By accelerator, memory that processes outside pods use."""
