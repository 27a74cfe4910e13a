"""Whether a model runs on a device, through which runtime and in which precision; otherwise why not.

Of a device without a peak that is not known: an absent figure is no reason against a device.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fairlead.estimate.speeds import DeviceSpeed, RuntimeSpeed, runtimes
from fairlead.units import Ops
from fairlead.workload import Profile

_FALLBACK_PRECISIONS: Final = {
    "fp64": ("fp64", "fp32"),
    "fp32": ("tf32", "fp32", "fp16", "bf16", "int8"),
    "tf32": ("tf32", "fp32", "fp16", "bf16", "int8"),
    "bf16": ("bf16", "fp16", "fp32", "int8"),
    "fp16": ("fp16", "bf16", "fp32", "int8"),
    "fp8": ("fp8", "fp16", "bf16", "fp32"),
    "fp4": ("fp4", "fp8", "fp16", "bf16", "fp32"),
    "int8": ("int8", "fp16", "bf16", "fp32"),
    "int4": ("int4", "int8", "fp16", "bf16", "fp32"),
}
"""By the model's precision, the precisions to compute in, the best first.

Where a device has tensor cores, libraries compute fp32 on them as tf32.
"""
_FP32_RATES: Final = ("tf32", "fp32")
"""The two rates at which values of 32 bits are computed."""
_CONVERTIBLE: Final = ("format:", "precision:")
"""Causes that a conversion removes."""
_FLOAT: Final = ("fp", "bf", "tf")
_DEFAULT_PRECISION: Final = "fp32"
"""The precision of a model whose own precision is not known."""
_UNLISTED: Final = ("int8", "fp16")
"""Precisions that a device may compute in although its data sheet gives no peak for them."""
LACKING: Final = {
    "int8": frozenset(("nvidia-kepler", "nvidia-maxwell", "tegra-k1", "tegra-x1", "tegra-x2", "amd-polaris")),
    "fp16": frozenset(
        (
            "nvidia-kepler",
            "nvidia-maxwell",
            "tegra-k1",
            "edge-tpu",
            "ethos-u",
            "hailo-8",
            "hailo-10",
            "hailo-15",
        )
    ),
}
"""Families known not to compute in a precision: GPUs without its instructions, units of integers alone."""
UNKNOWN: Final = "not known"
"""How every text begins that says so."""
NO_PEAK: Final = f"{UNKNOWN}: no peak in the catalog; calibrate, or add a row"


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """How a model would run on a device."""

    runtime: RuntimeSpeed
    precision: str
    """Of the values that are stored and moved."""
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Infeasible:
    """Why a model does not run on a device."""

    reasons: tuple[str, ...]
    runtime: str = ""


@dataclass(frozen=True, slots=True)
class UnknownSpeed:
    """A device on which nothing speaks against a model, and whose speed for it is not known."""

    reason: str
    plan: ExecutionPlan
    """How it would run in the precision that was requested, or else in its own."""


def execution_plan(
    profile: Profile,
    speed: DeviceSpeed,
    available: Sequence[str],
    requested: str | None,
    *,
    family: str = "",
    complete: bool = True,
) -> ExecutionPlan | Infeasible | UnknownSpeed:
    """Return how a model runs on a device with these precisions.

    A requested precision counts as done: the plan does not list its conversion. `family`: the device's. Not
    `complete`: the precisions are those of calibrations, so the device may compute in others as well.
    """
    own = profile.precision if profile.precision in _FALLBACK_PRECISIONS else _DEFAULT_PRECISION
    chosen, unknown = _choose_precision(own, requested, available), ""
    if isinstance(chosen, Infeasible):
        unknown = _unknown(available, requested or own, family, complete=complete)
        if not unknown:
            return chosen
        chosen = requested or own
    known = [runtimes()[name] for name in speed.runtimes]
    blocking = [_blocking(runtime, profile.unsupported.get(runtime.name, ())) for runtime in known]
    plans = [
        ExecutionPlan(runtime, chosen, _needs(runtime, profile.format, own, None if requested else chosen))
        for runtime, reasons in zip(known, blocking, strict=True)
        if not reasons
    ]
    if not plans:
        return Infeasible(blocking[0], known[0].name)
    plan = next((plan for plan in plans if not plan.needs), plans[0])
    return UnknownSpeed(unknown, plan) if unknown else plan


def rate(precision: str, rates: Mapping[str, Ops]) -> Ops:
    """Return the operations per second at a precision; 0 where the device does not compute in it."""
    if precision in _FP32_RATES:
        return max(rates.get("tf32", Ops(0.0)), rates.get("fp32", Ops(0.0)))
    return rates.get(precision, Ops(0.0))


def _choose_precision(own: str, requested: str | None, available: Sequence[str]) -> str | Infeasible:
    """Return the precision to compute in: the requested one, else the model's own, else the next best."""
    if not available:
        return Infeasible((NO_PEAK,))
    if requested is not None and not any(name in available for name in _rates_of(requested)):
        return Infeasible((f"precision: it computes in {_join_words(available)}, not in {requested}",))
    if requested is not None:
        return requested
    for precision in _FALLBACK_PRECISIONS[own]:
        if precision in available:
            return own if precision in _rates_of(own) else precision
    return Infeasible((f"precision: it computes in {_join_words(available)}, the model in {own}",))


def _unknown(available: Sequence[str], wanted: str, family: str, *, complete: bool) -> str:
    """Return why the speed in a precision without a rate is not known; empty: the device lacks it."""
    if not available:
        return NO_PEAK
    if not complete:
        return f"{UNKNOWN}: calibrated in {_join_words(available)} only; calibrate in {wanted}, or add a row"
    narrow = not any(name in available for name in (*_FP32_RATES, *_UNLISTED, "bf16", "fp64"))
    if narrow or (wanted in _UNLISTED and family not in LACKING[wanted]):
        only = f"{UNKNOWN}: no peak in the catalog but in {_join_words(available)}"
        return f"{only}; calibrate in {wanted}, or add a row"
    return ""


def _rates_of(precision: str) -> tuple[str, ...]:
    """Return the rates at which a device computes values of a precision without a conversion."""
    return _FP32_RATES if precision in _FP32_RATES else (precision,)


def _blocking(runtime: RuntimeSpeed, reasons: Iterable[str]) -> tuple[str, ...]:
    lasting = tuple(reason for reason in reasons if not reason.startswith(_CONVERTIBLE))
    return () if runtime.partial else lasting


def _needs(runtime: RuntimeSpeed, form: str, own: str, chosen: str | None) -> tuple[str, ...]:
    """Return the conversions that a file needs before it runs; `chosen` is None where precision is given."""
    needs = []
    if runtime.reads and form not in runtime.reads:
        needs.append(f"convert it to {' or '.join(runtime.reads)}")
    if chosen and chosen != own:
        if chosen.startswith("int"):
            needs.append(f"quantise it to {chosen}")
        elif not (runtime.casts and own.startswith(_FLOAT)):
            needs.append(f"convert it to {chosen}")
    return (*needs, runtime.needs) if runtime.needs else tuple(needs)


def _join_words(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
