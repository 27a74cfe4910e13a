"""What was measured when known models were run on a device: the ground that predictions stand on."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fairlead.units import Bytes, Seconds, Watts
from fairlead.workload import COMPUTE, Profile

VERSION: Final = 2
"""Of the document; what a reader does not know it refuses."""
_NO_BYTES: Final = Bytes(0)
_SMOOTH: Final = ("Sigmoid", "Erf", "Tanh", "LOGISTIC", "TANH")
"""Functions with an exponential: no runtime has them for nothing, as it has ReLU."""


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
class OperatorWork:
    """All operators of one kind in a model, added up."""

    operators: int = 0
    macs: int = 0
    weight_bytes: int = 0
    largest_weight_bytes: int = 0
    """Of one operator: runtimes hold copies of a weight while they rearrange it."""
    read_bytes: int = 0
    written_bytes: int = 0
    smooth_bytes: int = 0
    """Of those, what passes through an exponential."""
    kernels: int = 0
    """Groups of operators run as one, of which this kind is the work."""

    @property
    def moved_bytes(self) -> int:
        """Activations that are read and written."""
        return max(0, self.read_bytes + self.written_bytes - self.weight_bytes)

    def to_json(self) -> dict[str, int]:
        """Return the fields of the document."""
        return {
            "operators": self.operators,
            "macs": self.macs,
            "weight_bytes": self.weight_bytes,
            "largest_weight_bytes": self.largest_weight_bytes,
            "read_bytes": self.read_bytes,
            "written_bytes": self.written_bytes,
            "smooth_bytes": self.smooth_bytes,
            "kernels": self.kernels,
        }


@dataclass(frozen=True, slots=True)
class Features:
    """What predictions are made from: a model's profile, added up by kind."""

    digest: str
    batch: int
    groups: int
    peak_bytes: Bytes
    """The most that inputs, outputs and values between operators take at one time."""
    work: Mapping[str, OperatorWork] = field(default_factory=dict)
    input_bytes: Bytes = _NO_BYTES
    output_bytes: Bytes = _NO_BYTES
    """What passes between the host and the device in every run."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the document."""
        return {
            "digest": self.digest,
            "batch": self.batch,
            "groups": self.groups,
            "peak_bytes": self.peak_bytes,
            "work": {kind: work.to_json() for kind, work in self.work.items()},
            "input_bytes": self.input_bytes,
            "output_bytes": self.output_bytes,
        }


@dataclass(frozen=True, slots=True)
class MeasuredRun:
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
    measured: MeasuredRun | None
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


@dataclass(frozen=True, slots=True)
class Latency:
    """How long one run of a model took, where it was really used."""

    median: Seconds
    p90: Seconds
    count: int
    """The runs that these figures rest on."""
    ratio: float | None = None
    """The median as a multiple of what was estimated without it; none where nothing was estimated."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the document."""
        return {"median": self.median, "p90": self.p90, "count": self.count, "ratio": self.ratio}


@dataclass(frozen=True, slots=True)
class ObservedUse:
    """What real use showed of one model on one setup."""

    setup: Setup
    host: str
    digest: str
    """Of the model's profile."""
    model: str
    """Its name, for people."""
    made: str
    """When it was last written: a date and time of UTC."""
    image: str = ""
    """The container that ran it, where there was one."""
    peak_bytes: Bytes | None = None
    """The most of the device's memory that it ever held."""
    latency: Latency | None = None
    watts: Watts | None = None
    """Of the device, busy with this model."""
    ramp: Seconds | None = None
    """From its start until it took as much of the device as it does in the long run."""

    def to_json(self) -> dict[str, Any]:
        """Return the document."""
        return {
            "version": VERSION,
            "setup": self.setup.to_json(),
            "host": self.host,
            "digest": self.digest,
            "model": self.model,
            "made": self.made,
            "image": self.image,
            "peak_bytes": self.peak_bytes,
            "latency": None if self.latency is None else self.latency.to_json(),
            "watts": self.watts,
            "ramp": self.ramp,
        }


def setup_id(setup: Setup, host: str) -> str:
    """Return a short name that all machines of one make and mode share, and no other has.

    Measured figures differ in their last digits from machine to machine, so they are rounded.
    """
    amounts = (setup.effective_ops, setup.link_bits_per_second, setup.power)
    words = (setup.device, setup.runtime, setup.version, setup.precision, str(setup.threads), host)
    rounded = ("-" if amount is None else f"{amount:.3g}" for amount in amounts)
    return hashlib.sha256("\0".join((*words, *rounded)).encode()).hexdigest()[:12]


def quicker_run(before: MeasuredRun, now: MeasuredRun) -> MeasuredRun:
    """Return the quicker of two, for noise only ever makes a run longer; of memory the most."""
    quicker = min(before, now, key=lambda found: (found.seconds, found.p90, found.wall, -found.runs))
    return replace(quicker, peak_bytes=Bytes(max(before.peak_bytes, now.peak_bytes)))


def merge_trials(before: Trial, now: Trial) -> Trial:
    """Return what two trials of one model on one setup say: figures count more than a failure."""
    if before.measured is None or now.measured is None:
        return before if now.measured is None and before.measured is not None else now
    return replace(now, measured=quicker_run(before.measured, now.measured))


def merge_calibrations(before: Calibration, now: Calibration) -> Calibration:
    """Return what two calibrations of one setup say, model by model."""
    trials = {trial.features.digest: trial for trial in before.trials}
    for trial in now.trials:
        known = trials.get(trial.features.digest)
        trials[trial.features.digest] = merge_trials(known, trial) if known else trial
    return replace(now, made=max(before.made, now.made), trials=tuple(trials.values()))


def merge_observed(before: ObservedUse, now: ObservedUse) -> ObservedUse:
    """Return what two sights of one model on one setup say: the most memory, the most seen latencies."""
    older, newer = sorted((before, now), key=lambda seen: seen.made)
    richer = max(newer, older, key=lambda seen: seen.latency.count if seen.latency else 0)
    watts = (seen.watts for seen in (richer, newer, older) if seen.watts is not None)
    peaks = [seen.peak_bytes for seen in (before, now) if seen.peak_bytes is not None]
    ramps = [seen.ramp for seen in (before, now) if seen.ramp is not None]
    return replace(
        newer,
        image=newer.image or older.image,
        peak_bytes=max(peaks, default=None),
        latency=richer.latency,
        watts=next(watts, None),
        ramp=max(ramps, default=None),
    )


def features(profile: Profile) -> Features:
    """Add up a profile by the kinds of its operators."""
    work: dict[str, OperatorWork] = {}
    for operator in profile.operators:
        before = work.get(operator.kind, OperatorWork())
        moved = operator.read_bytes + operator.written_bytes - operator.weight_bytes
        work[operator.kind] = OperatorWork(
            before.operators + 1,
            before.macs + operator.macs,
            before.weight_bytes + operator.weight_bytes,
            max(before.largest_weight_bytes, operator.weight_bytes),
            before.read_bytes + operator.read_bytes,
            before.written_bytes + operator.written_bytes,
            before.smooth_bytes + (moved if operator.op in _SMOOTH else 0),
        )
    for kind in _leading(profile):
        work[kind] = replace(work[kind], kernels=work[kind].kernels + 1)
    return Features(
        profile.digest,
        profile.batch or 1,
        profile.groups,
        profile.peak_bytes,
        work,
        Bytes(sum(tensor.size for tensor in profile.inputs)),
        Bytes(sum(tensor.size for tensor in profile.outputs)),
    )


def _leading(profile: Profile) -> Iterable[str]:
    """Return the kind of every group: of its first operator with multiply-adds, else of its first one."""
    kinds: dict[int, str] = {}
    for operator in profile.operators:
        known = kinds.setdefault(operator.group, operator.kind)
        if operator.kind in COMPUTE and known not in COMPUTE:
            kinds[operator.group] = operator.kind
    return kinds.values()
