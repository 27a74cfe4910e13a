"""What is known of a job and of the two sides that may do it."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from fairlead.splitting.policy.rates import SideRate, unknown_rate
from fairlead.units import Bytes


class Compute(Enum):
    """Where inputs are computed."""

    DEVICE = "device"
    SERVER = "server"
    SPLIT = "split"

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites whose workers get inputs, as workers name them."""
        return _SITES[self]


class Storage(Enum):
    """Where results are kept."""

    DEVICE = "device"
    SERVER = "server"


class OffloadObjective(Enum):
    """What is to be small."""

    TIME = "time"
    ENERGY = "energy"
    """Of the device; among equals the shorter time."""


_SITES: Final = {
    Compute.DEVICE: ("device",),
    Compute.SERVER: ("pod",),
    Compute.SPLIT: ("device", "pod"),
}


@dataclass(frozen=True, slots=True)
class OffloadLink:
    """The link between device and server, as it was measured."""

    up: float
    """Bytes a second from the device to the server."""
    down: float
    round_trip_s: float = 0.0
    watts: float = 0.0
    """What the device's radio takes while it sends or receives."""


@dataclass(frozen=True, slots=True)
class SideFacts:
    """One side: a device, or the workers beside the store together."""

    rate: SideRate = field(default_factory=unknown_rate)
    start_s: float = 0.0
    """Until the first input is begun: a model that is loaded, a pod that starts."""
    free: Bytes | None = None
    """Space for files; None: not known, and taken as enough."""
    busy_watts: float = 0.0
    idle_watts: float = 0.0
    energy: float | None = None
    """Joules that may be used for this job; None: no limit."""
    refusal: str = ""
    """Why it cannot compute: no worker, no model that fits; empty: it can."""


@dataclass(frozen=True, slots=True)
class OffloadFacts:
    """A job as far as it is not done."""

    inputs: float
    """Inputs without a result; of a job that follows a folder, those of the next minutes."""
    device: SideFacts
    server: SideFacts
    link: OffloadLink | None = None
    """None: the server cannot be reached."""
    input_bytes: float = 0.0
    """Of one input, on average."""
    result_bytes: float = 0.0
    on_device: float = 1.0
    """The share of the inputs whose bytes the device has."""
    stored: float = 0.0
    """The share whose bytes the server has; both may have some."""
    storage: Storage | None = None
    """Where results must be kept; None: the policy decides."""
    objective: OffloadObjective = OffloadObjective.TIME
