"""Measurements of known models on a device: the basis of predictions."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import hypot
from typing import Any, Final

from fairlead.units import Bytes, Seconds, Watts
from fairlead.workload import COMPUTE, Profile

VERSION: Final = 2
"""Version of the document; a reader refuses a version that it does not know.

Fields that older programs can do without are added under the same version, and may be missing.
"""
_NO_BYTES: Final = Bytes(0)
_OF_WAITING: Final = 0.3
"""The part of the share of waiting by which a figure may be off: after a wait, caches are cold.

Four models that waited for 63 to 86 % of the time were 1, 2, 1 and 11 % off their times on a quiet machine;
in a single round at 83 % one was 36 % off.
"""
_STEP: Final = 0.05
"""Runs whose spreads are in the same step of this width are equally good."""
_SMOOTH: Final = ("Sigmoid", "Erf", "Tanh", "LOGISTIC", "TANH")
"""Functions with an exponential: unlike ReLU, they are free in no runtime."""


@dataclass(frozen=True, slots=True)
class Setup:
    """A device with a runtime, precision and mode; other figures hold for another of any of these."""

    device: str
    """The catalog id."""
    runtime: str
    """With the provider that reaches the device: `onnxruntime-cpu`, `onnxruntime-cuda`, `torch-cuda`."""
    version: str
    precision: str
    threads: int = 0
    """Threads that compute on the host; 0 where another device computes."""
    effective_ops: float | None = None
    """Operations per second that the device reached under its clock cap and link at that time."""
    link_bits_per_second: float | None = None
    power: Watts | None = None
    """The limit of the power mode."""

    @property
    def name(self) -> str:
        """A name that tells setups of one machine apart; it is valid in a file name."""
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
    """Bytes of these that pass through an exponential."""
    kernels: int = 0
    """Groups of operators that run as one kernel whose main work is of this kind."""

    @property
    def moved_bytes(self) -> int:
        """Bytes of activations that are read and written."""
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
    """The input of predictions: a model's profile, added up by kind of operator."""

    digest: str
    batch: int
    groups: int
    peak_bytes: Bytes
    """The most memory that inputs, outputs and values between operators take at one time."""
    work: Mapping[str, OperatorWork] = field(default_factory=dict)
    input_bytes: Bytes = _NO_BYTES
    output_bytes: Bytes = _NO_BYTES
    """Inputs and outputs pass between the host and the device in every run."""

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
    """The measurements of a model's runs."""

    seconds: Seconds
    """Of one run: the least of the medians of all rounds, without the time spent waiting for a CPU."""
    p90: Seconds
    """Nine of ten runs of that round took at most this."""
    runs: int
    """In all rounds together."""
    wall: Seconds
    """The median wall-clock time of that round, waiting included."""
    waited: float
    """The share of all rounds spent waiting for a CPU that other programs held."""
    peak_bytes: Bytes
    """Of the device's memory: for a CPU the most that the whole process ever held."""
    base_bytes: Bytes | None
    """Memory in use before the model was loaded: the runtime itself, where that is known."""
    watts: Watts | None = None
    """Of the device, busy with this model."""
    noise: float | None = None
    """How far, in logarithms, a usual round and a usual run lie above `seconds`; None: not recorded."""
    load: float | None = None
    """The share of the time in which any program of the machine waited for a CPU; None: not recorded."""
    made: str = ""
    """The date and time of the measurement, in UTC; empty: that of its calibration."""

    @property
    def spread(self) -> float:
        """How far `seconds` may be off: a standard deviation in logarithms, by noise and by waiting."""
        return hypot(self.noise or 0.0, _OF_WAITING * min(self.waited, 1.0))

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
            "noise": self.noise,
            "load": self.load,
            "made": self.made,
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
    """The board or processor that hosts the device, as it names itself."""
    made: str
    """The date and time of the calibration, in UTC."""
    trials: tuple[Trial, ...] = ()

    @property
    def done(self) -> tuple[Trial, ...]:
        """The trials with measurements."""
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
    """How long one run of a model took in real use."""

    median: Seconds
    p90: Seconds
    count: int
    """The runs that these figures rest on."""
    ratio: float | None = None
    """The median relative to the estimate without it; None where there was no estimate."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the document."""
        return {"median": self.median, "p90": self.p90, "count": self.count, "ratio": self.ratio}


@dataclass(frozen=True, slots=True)
class ObservedUse:
    """One model observed in real use on one setup."""

    setup: Setup
    host: str
    digest: str
    """Of the model's profile."""
    model: str
    """Its name, for people."""
    made: str
    """The date and time of the last update, in UTC."""
    image: str = ""
    """The container that ran it, where there was one."""
    peak_bytes: Bytes | None = None
    """The most of the device's memory that it ever held."""
    latency: Latency | None = None
    watts: Watts | None = None
    """Of the device, busy with this model."""
    ramp: Seconds | None = None
    """From its start until it used the device as much as it does in the long run."""

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


def with_date(trial: Trial, made: str) -> Trial:
    """Return a trial whose measurement has a date; programs before this one dated only whole calibrations."""
    if trial.measured is None or trial.measured.made:
        return trial
    return replace(trial, measured=replace(trial.measured, made=made))


def setup_id(setup: Setup, host: str) -> str:
    """Return a short id that all machines of one make and mode share, and no other machine has.

    Measured figures differ in their last digits from machine to machine, so they are rounded.
    """
    amounts = (setup.effective_ops, setup.link_bits_per_second, setup.power)
    words = (setup.device, setup.runtime, setup.version, setup.precision, str(setup.threads), host)
    rounded = ("-" if amount is None else f"{amount:.3g}" for amount in amounts)
    return hashlib.sha256("\0".join((*words, *rounded)).encode()).hexdigest()[:12]


def better_run(before: MeasuredRun, now: MeasuredRun) -> MeasuredRun:
    """Return the newer of two runs, unless it was noisier; of memory, the most.

    Of two of one moment the quicker counts: noise only ever makes a run longer. The order does not matter,
    so that machines that write one profile agree.
    """
    better = min(before, now, key=_worst_last)
    return replace(better, peak_bytes=Bytes(max(before.peak_bytes, now.peak_bytes)))


def _worst_last(run: MeasuredRun) -> tuple[Any, ...]:
    age = tuple(-ord(letter) for letter in run.made) or (1,)
    times = (run.seconds, run.p90, run.wall, -run.runs)
    rest = (run.noise is None, run.noise or 0.0, run.waited, run.load or 0.0, run.watts or 0.0)
    return (int(min(run.spread, 1e3) / _STEP), age, *times, *rest)


def merge_trials(before: Trial, now: Trial) -> Trial:
    """Merge two trials of one model on one setup: measurements count more than a failure."""
    if before.measured is None or now.measured is None:
        return before if now.measured is None and before.measured is not None else now
    return replace(now, measured=better_run(before.measured, now.measured))


def merge_calibrations(before: Calibration, now: Calibration) -> Calibration:
    """Merge two calibrations of one setup, model by model: nothing that is stored is lost."""
    trials = {trial.features.digest: with_date(trial, before.made) for trial in before.trials}
    for each in now.trials:
        trial = with_date(each, now.made)
        known = trials.get(trial.features.digest)
        trials[trial.features.digest] = merge_trials(known, trial) if known else trial
    return replace(now, made=max(before.made, now.made), trials=tuple(trials.values()))


def merge_observed(before: ObservedUse, now: ObservedUse) -> ObservedUse:
    """Merge two observed uses of one model on one setup: the most memory, the latencies of more runs."""
    older, newer = sorted((before, now), key=lambda use: use.made)
    richer = max(newer, older, key=lambda use: use.latency.count if use.latency else 0)
    watts = (use.watts for use in (richer, newer, older) if use.watts is not None)
    peaks = [use.peak_bytes for use in (before, now) if use.peak_bytes is not None]
    ramps = [use.ramp for use in (before, now) if use.ramp is not None]
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
    """Return the kind of every group: that of its first operator with multiply-adds, else of its first."""
    kinds: dict[int, str] = {}
    for operator in profile.operators:
        known = kinds.setdefault(operator.group, operator.kind)
        if operator.kind in COMPUTE and known not in COMPUTE:
            kinds[operator.group] = operator.kind
    return kinds.values()
