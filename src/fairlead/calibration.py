"""What was measured when known models were run on a device: the ground that predictions stand on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.units import Bytes, Seconds, Watts
from fairlead.workload import Profile

VERSION: Final = 1
"""Of the document; what a reader does not know it refuses."""


@dataclass(frozen=True, slots=True)
class Setup:
    """A device as models meet it: other figures hold for another runtime, precision or mode."""

    device: str
    """The catalog id."""
    runtime: str
    """With its way to the device: `onnxruntime-cpu`, `onnxruntime-cuda`, `torch-cuda`."""
    version: str
    precision: str
    threads: int = 0
    """That compute on the host; 0 where another device computes."""
    effective_ops: float | None = None
    """Operations per second that the device was capable of, under its clock cap and link at that time."""
    link_bits_per_second: float | None = None
    power: Watts | None = None
    """The limit of the power mode."""

    @property
    def name(self) -> str:
        """Tell setups of one machine apart; it may stand in a file's name."""
        threads = f"-{self.threads}t" if self.threads else ""
        power = f"-{self.power:.0f}w" if self.power else ""
        return f"{self.device}-{self.runtime}-{self.precision}{threads}{power}"

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the document."""
        return {
            "device": self.device,
            "runtime": self.runtime,
            "version": self.version,
            "precision": self.precision,
            "threads": self.threads,
            "effective_ops": self.effective_ops,
            "link_bits_per_second": self.link_bits_per_second,
            "power_w": self.power,
        }


@dataclass(frozen=True, slots=True)
class Work:
    """All operators of one kind in a model, added up."""

    operators: int = 0
    macs: int = 0
    weight_bytes: int = 0
    largest_weight_bytes: int = 0
    """Of one operator: runtimes hold copies of a weight while they rearrange it."""
    read_bytes: int = 0
    written_bytes: int = 0

    def to_json(self) -> dict[str, int]:
        """Return the fields of the document."""
        return {
            "operators": self.operators,
            "macs": self.macs,
            "weight_bytes": self.weight_bytes,
            "largest_weight_bytes": self.largest_weight_bytes,
            "read_bytes": self.read_bytes,
            "written_bytes": self.written_bytes,
        }


@dataclass(frozen=True, slots=True)
class Features:
    """What predictions are made from: a model's profile, added up by kind."""

    digest: str
    batch: int
    groups: int
    peak_bytes: Bytes
    """The most that inputs, outputs and values between operators take at one time."""
    work: Mapping[str, Work] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the document."""
        return {
            "digest": self.digest,
            "batch": self.batch,
            "groups": self.groups,
            "peak_bytes": self.peak_bytes,
            "work": {kind: work.to_json() for kind, work in self.work.items()},
        }


@dataclass(frozen=True, slots=True)
class Measured:
    """What running a model showed."""

    seconds: Seconds
    """Of one run: the least of the medians of all rounds, time spent waiting for a CPU taken off."""
    p90: Seconds
    """What nine of ten runs of that round took at most."""
    runs: int
    """In all rounds together."""
    wall: Seconds
    """The median of that round as the clock saw it, with the waiting."""
    waited: float
    """The share of all rounds that went by waiting for a CPU, because other programs had it."""
    peak_bytes: Bytes
    """Of the device's memory: for a CPU the most that the whole process ever held."""
    base_bytes: Bytes | None
    """As much of it as there was before the model was loaded: the runtime itself, where it can be told."""
    watts: Watts | None = None
    """Of the device, busy with this model."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the document."""
        return {
            "seconds": self.seconds,
            "p90": self.p90,
            "runs": self.runs,
            "wall": self.wall,
            "waited": self.waited,
            "peak_bytes": self.peak_bytes,
            "base_bytes": self.base_bytes,
            "watts": self.watts,
        }


@dataclass(frozen=True, slots=True)
class Trial:
    """One model on the device: its figures, or why there are none."""

    model: str
    features: Features
    measured: Measured | None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the document."""
        return {
            "model": self.model,
            "features": self.features.to_json(),
            "measured": None if self.measured is None else self.measured.to_json(),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Calibration:
    """All trials of one setup."""

    setup: Setup
    host: str
    """The board or processor around the device, in its own words."""
    made: str
    """When: a date and time of UTC."""
    trials: tuple[Trial, ...] = ()

    @property
    def done(self) -> tuple[Trial, ...]:
        """The trials that have figures."""
        return tuple(trial for trial in self.trials if trial.measured is not None)

    def to_json(self) -> dict[str, Any]:
        """Return the document."""
        return {
            "version": VERSION,
            "setup": self.setup.to_json(),
            "host": self.host,
            "made": self.made,
            "trials": [trial.to_json() for trial in self.trials],
        }


def features(profile: Profile) -> Features:
    """Add up a profile by the kinds of its operators."""
    work: dict[str, Work] = {}
    for operator in profile.operators:
        before = work.get(operator.kind, Work())
        work[operator.kind] = Work(
            before.operators + 1,
            before.macs + operator.macs,
            before.weight_bytes + operator.weight_bytes,
            max(before.largest_weight_bytes, operator.weight_bytes),
            before.read_bytes + operator.read_bytes,
            before.written_bytes + operator.written_bytes,
        )
    return Features(profile.digest, profile.batch or 1, profile.groups, profile.peak_bytes, work)
