"""Predict a training job on devices: seconds of a step, memory, energy, and the whole job."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import Any, Final

from fairlead.estimate.amounts import NAMES
from fairlead.estimate.calibrated import CalibratedFit
from fairlead.estimate.feasible import NO_PEAK
from fairlead.estimate.knowledge import Knowledge
from fairlead.estimate.target import Target
from fairlead.prediction import Z90, Estimate, confidence
from fairlead.training.costs import step_times, unit_costs
from fairlead.training.layers import Layers, training_layers
from fairlead.training.memory import TrainingMemory, peak_memory
from fairlead.training.rates import TrainingRates, training_rates
from fairlead.training.setup import TrainingSetup
from fairlead.training.speeds import (
    TRAINING_KINDS,
    TrainingSpeed,
    training_speed,
)
from fairlead.training.work import StepWork, step_work
from fairlead.units import Bytes, Seconds, Watts, format_bytes
from fairlead.workload import Profile

RUNTIME: Final = "pytorch"
_FRAGMENTS: Final = 1.05
"""An allocator holds this much more than it has given out: blocks that fit nothing."""
_CALIBRATED_SPREAD: Final = 0.25
"""Spread of steps after a calibration by inference."""
_FITS: Final = {
    "fp32": ("fp32", "fp16"),
    "amp": ("fp16", "bf16", "fp32"),
    "bf16": ("bf16", "fp16", "fp32"),
}
"""By the precision of training, the precisions of calibrations that tell about it, the best first."""


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A model to train, counted once for all devices."""

    profile: Profile
    setup: TrainingSetup
    layers: Layers
    memory: TrainingMemory
    work: StepWork

    @classmethod
    def of(cls, profile: Profile, setup: TrainingSetup) -> "TrainingJob":
        """Count the work and the memory of a model's training."""
        layers = training_layers(profile.flow)
        batch = profile.batch or 1
        return cls(profile, setup, layers, peak_memory(layers, setup, batch), step_work(layers, setup, batch))

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract: what a step takes, on whatever device."""
        setup, whole = self.setup, self.work.total
        return {
            "batch": setup.batch,
            "optimizer": setup.optimizer,
            "precision": setup.precision,
            "checkpointing": setup.checkpointing,
            "trained_weights": self.layers.weights,
            "norms_restored": self.layers.norms_restored,
            "step_macs": int(
                sum(whole[place] for place, name in enumerate(NAMES) if name.startswith("macs"))
            ),
            "kernels": round(self.work.calls),
            "memory": self.memory.to_json(),
            "steps": setup.steps,
        }


@dataclass(frozen=True, slots=True)
class TrainingEstimate:
    """A training job on one device."""

    step: Estimate
    """Of one step: its seconds, the allocator's peak as its memory, its joules."""
    memory: TrainingMemory | None = None
    device_bytes: Bytes | None = None
    """What the device must have free: the peak, its fragments, and the process's own memory."""
    steps: int | None = None

    @property
    def job_seconds(self) -> Seconds | None:
        """Of all steps; None without samples."""
        if self.steps is None or self.step.seconds is None:
            return None
        return Seconds(self.steps * self.step.seconds)

    @property
    def job_joules(self) -> float | None:
        """Of all steps."""
        return None if self.steps is None or self.step.joules is None else self.steps * self.step.joules

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        seconds = self.step.seconds
        return self.step.to_json() | {
            "samples_per_second": self.step.batch / seconds if seconds else None,
            "device_bytes": self.device_bytes,
            "memory": None if self.memory is None else self.memory.to_json(),
            "steps": self.steps,
            "job_seconds": self.job_seconds,
            "job_joules": self.job_joules,
        }


def estimate_training(
    job: TrainingJob, targets: Sequence[Target], knowledge: Knowledge, slo: Seconds | None = None
) -> list[TrainingEstimate]:
    """Return the estimate of a training job on each device, in the order of the devices."""
    return [_on(job, target, knowledge, slo) for target in targets]


def _on(job: TrainingJob, target: Target, knowledge: Knowledge, slo: Seconds | None) -> TrainingEstimate:
    rates = knowledge.rates(target)
    if target.reason:
        return _refused(job, target, target.reason)
    if target.kind not in TRAINING_KINDS:
        return _refused(job, target, f"operator: frameworks do not train on a device of kind {target.kind}")
    chosen = training_rates(rates, job.setup.precision)
    if chosen is None:
        return _unknown(job, target)
    if isinstance(chosen, str):
        return _refused(job, target, chosen)
    return _estimate(job, target, chosen, knowledge, slo)


def _estimate(
    job: TrainingJob, target: Target, rates: TrainingRates, knowledge: Knowledge, slo: Seconds | None
) -> TrainingEstimate:
    speed = training_speed(target.kind, target.vendor, target.family)
    own = _own_fit(target, job.setup.precision, knowledge)
    seconds = step_seconds(job.work, target, rates, speed, own)
    spread = speed.spread if own is None else _CALIBRATED_SPREAD
    p90 = Seconds(seconds * exp(Z90 * spread))
    memory, needed = _sizes(job, speed)
    missing = _missing(needed, target.memory)
    watts = None if target.power is None else Watts(target.power * speed.busy)
    step = Estimate(
        device=target.name,
        model=job.profile.name,
        runtime=RUNTIME,
        precision=job.setup.precision,
        batch=job.setup.batch,
        fits=not missing,
        reasons=missing,
        seconds=Seconds(seconds),
        p90=p90,
        memory=memory,
        available=target.memory,
        watts=watts,
        joules=None if watts is None else watts * seconds,
        confidence=confidence(spread) if job.profile.exact else "low",
        basis="data sheet" if own is None else "calibrated",
        meets_slo=None if slo is None else p90 * (job.setup.steps or 1) <= slo,
    )
    return TrainingEstimate(step, _parts(job, speed), needed, job.setup.steps)


def step_seconds(
    work: StepWork, target: Target, rates: TrainingRates, speed: TrainingSpeed, own: CalibratedFit | None
) -> float:
    """Return the seconds of a step: of its kernels, or of the host that starts them, whichever is longer."""
    times = step_times(speed, unit_costs(target, rates, own), half=rates.half)
    return max(float(work.total @ times), work.calls * speed.host_us * 1e-6)


def _own_fit(target: Target, precision: str, knowledge: Knowledge) -> CalibratedFit | None:
    fits = (knowledge.own_fit(target, name) for name in _FITS[precision])
    return next((fit for fit in fits if fit is not None), None)


def _missing(needed: Bytes, available: Bytes | None) -> tuple[str, ...]:
    if available is None or needed <= available:
        return ()
    return (
        f"memory: training takes {format_bytes(needed)}, and there are {format_bytes(available)}: "
        "a smaller --batch, --checkpointing or --precision amp takes less",
    )


def _unknown(job: TrainingJob, target: Target) -> TrainingEstimate:
    """Return what is known of a device without a peak: the memory."""
    speed = training_speed(target.kind, target.vendor, target.family)
    memory, needed = _sizes(job, speed)
    missing = _missing(needed, target.memory)
    refused = _refused(job, target, NO_PEAK)
    reasons = (*missing, *refused.step.reasons)
    step = replace(refused.step, runs=None, fits=not missing, reasons=reasons, memory=memory)
    return replace(refused, step=step, memory=_parts(job, speed), device_bytes=needed)


def _sizes(job: TrainingJob, speed: TrainingSpeed) -> tuple[Bytes, Bytes]:
    """Return what the allocator counts, and what the device must have free."""
    memory = Bytes(job.memory.peak + speed.held)
    return memory, Bytes(int(memory * _FRAGMENTS) + speed.context)


def _parts(job: TrainingJob, speed: TrainingSpeed) -> TrainingMemory:
    memory, _ = _sizes(job, speed)
    return replace(job.memory, workspace=Bytes(job.memory.workspace + speed.held), peak=memory)


def _refused(job: TrainingJob, target: Target, reason: str) -> TrainingEstimate:
    step = Estimate(
        device=target.name,
        model=job.profile.name,
        runtime=RUNTIME,
        precision=job.setup.precision,
        batch=job.setup.batch,
        runs=False,
        reasons=(reason,),
        available=target.memory,
    )
    return TrainingEstimate(step, steps=job.setup.steps)
