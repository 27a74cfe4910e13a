"""Whether a model runs on a device, through what and in what precision; else why not."""

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
"""What a model of a precision is best computed in, where a device does not have that one.

Libraries compute fp32 on tensor cores as tf32 where there are any.
"""
_FP32_RATES: Final = ("tf32", "fp32")
"""Two ways to compute values of 32 bits."""
_CONVERTIBLE: Final = ("format:", "precision:")
"""Causes that a conversion takes away."""
_FLOAT: Final = ("fp", "bf", "tf")
_DEFAULT_PRECISION: Final = "fp32"
"""What a model is taken for that does not say what it computes in."""


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """How a model would run on a device."""

    runtime: RuntimeSpeed
    precision: str
    """Of the values it is stored and moved in."""
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Infeasible:
    """Why a model does not run on a device."""

    reasons: tuple[str, ...]
    runtime: str = ""


def execution_plan(
    profile: Profile, speed: DeviceSpeed, has: Sequence[str], asked: str | None
) -> ExecutionPlan | Infeasible:
    """Return how a model runs where these precisions are had; what is asked for need not be made first."""
    if not has:
        return Infeasible(("speed: the catalog knows no peak of it: calibrate it",))
    own = profile.precision if profile.precision in _FALLBACK_PRECISIONS else _DEFAULT_PRECISION
    chosen = _choose_precision(own, asked, has)
    if isinstance(chosen, Infeasible):
        return chosen
    known = [runtimes()[name] for name in speed.runtimes]
    blocking = [_blocking(runtime, profile.unsupported.get(runtime.name, ())) for runtime in known]
    ways = [
        ExecutionPlan(runtime, chosen, _needs(runtime, profile.format, own, None if asked else chosen))
        for runtime, reasons in zip(known, blocking, strict=True)
        if not reasons
    ]
    if not ways:
        return Infeasible(blocking[0], known[0].name)
    return next((each for each in ways if not each.needs), ways[0])


def rate(precision: str, rates: Mapping[str, Ops]) -> Ops:
    """Return the operations per second at which values of a precision are computed; 0 if they are not."""
    if precision in _FP32_RATES:
        return max(rates.get("tf32", Ops(0.0)), rates.get("fp32", Ops(0.0)))
    return rates.get(precision, Ops(0.0))


def _choose_precision(own: str, asked: str | None, has: Sequence[str]) -> str | Infeasible:
    """Return what is computed in: what was asked for, or else the model's own, or the next best."""
    if asked is not None and not any(each in has for each in _rates_of(asked)):
        return Infeasible((f"precision: it computes in {_join_words(has)}, not in {asked}",))
    if asked is not None:
        return asked
    for each in _FALLBACK_PRECISIONS[own]:
        if each in has:
            return own if each in _rates_of(own) else each
    return Infeasible((f"precision: it computes in {_join_words(has)}, the model in {own}",))


def _rates_of(precision: str) -> tuple[str, ...]:
    """Return the rates at which values of a precision are computed as they are."""
    return _FP32_RATES if precision in _FP32_RATES else (precision,)


def _blocking(runtime: RuntimeSpeed, reasons: Iterable[str]) -> tuple[str, ...]:
    lasting = tuple(reason for reason in reasons if not reason.startswith(_CONVERTIBLE))
    return () if runtime.partial else lasting


def _needs(runtime: RuntimeSpeed, form: str, own: str, chosen: str | None) -> tuple[str, ...]:
    """Return what must be done to a file before it runs there, its precision unless that is granted."""
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
