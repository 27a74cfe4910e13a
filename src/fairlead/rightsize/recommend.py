"""The size that a workload should request, from its measured memory; or why there is no advice."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fairlead.compat import StrEnum
from fairlead.rightsize.tail import UseTail
from fairlead.series import Series, Staleness
from fairlead.sizing.footprint import CRASH_STEP
from fairlead.units import Bytes, format_bytes, pluralize

DEFAULT_RISK: Final = 0.01
"""The default bound: the probability that a pod exceeds its size within a day."""
MIN_SAMPLES: Final = 100
"""The least samples of a workload."""
STALE_AFTER: Final = 3600.0
"""Seconds since the newest sample after which there is no advice."""
SLACK: Final = 0.1
"""The part of a request that a smaller size must save: less is not worth the restart of the pods."""
MIB: Final = Bytes(1 << 20)


class Verdict(StrEnum):
    """What is said about a request."""

    OVER = "over-provisioned"
    UNDER = "under-provisioned"
    RIGHT = "right"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SizeAdvice:
    """The size that a workload should request, of each accelerator."""

    size: Bytes | None
    """The request itself where the verdict is `right`; None where it is `unknown`."""
    risk: float | None
    """The estimated probability that a pod exceeds the size within a day."""
    verdict: Verdict
    reason: str
    """For people: what the verdict is based on."""


@dataclass(frozen=True, slots=True)
class SampleRules:
    """What the samples must be, and what else is known about a workload."""

    min_samples: int = MIN_SAMPLES
    stale_after: float = STALE_AFTER
    step: Bytes = MIB
    """The unit of the request: sizes are multiples of it."""
    capacity: Bytes | None = None
    """The memory of the accelerators: no size is larger, and no pod exceeds it."""
    crashes: int = 0
    """Containers that ended because an allocation on the accelerator failed."""
    crash: str = "restart"
    """What such an end is called."""


DEFAULT_RULES: Final = SampleRules()


def recommend(
    requested: Bytes, series: Sequence[Series], bound: float, now: float, rules: SampleRules = DEFAULT_RULES
) -> SizeAdvice:
    """Return the advice for a request, from the series of the memory of each pod on each accelerator."""
    if why := _unusable(series, now, rules):
        return SizeAdvice(None, None, Verdict.UNKNOWN, why)
    tail = UseTail.of(series)
    return judge(requested, tail, _basis(tail, series), bound, rules)


def judge(requested: Bytes, tail: UseTail, basis: str, bound: float, rules: SampleRules) -> SizeAdvice:
    """Return the advice for a request, from the tail of what was used; `basis` describes it for people."""
    size = size_for(tail, bound, rules)
    if rules.crashes or tail.peak > requested:
        why = f"{basis}, above the request" if tail.peak > requested else basis
        if rules.crashes:
            # The samples end before the allocation that failed: nothing shows how large it was.
            size = max(size, _round_up((1 + CRASH_STEP) * max(tail.peak, requested), rules))
            why += f"; {pluralize(rules.crashes, rules.crash)} by a failed allocation"
        return SizeAdvice(size, _risk(tail, size, rules), Verdict.UNDER, why)
    if size <= (1 - SLACK) * requested:
        return SizeAdvice(size, _risk(tail, size, rules), Verdict.OVER, basis)
    return SizeAdvice(
        requested, _risk(tail, requested, rules), Verdict.RIGHT, _why_right(basis, size, requested, bound)
    )


def size_for(tail: UseTail, bound: float, rules: SampleRules) -> Bytes:
    """Return the least size with at most this risk, in the unit of the request."""
    return _round_up(tail.size(bound), rules)


def _unusable(series: Sequence[Series], now: float, rules: SampleRules) -> str:
    """Return why these series give no advice; empty where they do."""
    newest = max(series, key=lambda each: each.times[-1] if each else float("-inf"), default=Series())
    match newest.staleness(now, rules.stale_after):
        case Staleness.MISSING:
            return "no series"
        case Staleness.STALE:
            return f"stale: the last value is {format_age(newest.age(now) or 0.0)} old"
    samples = sum(map(len, series))
    if samples < rules.min_samples:
        return f"too few samples: {samples} instead of {rules.min_samples}"
    if not any(max(each.values) > 0 for each in series if each):
        return "no memory was used: check that the pods do their work"
    return ""


def _basis(tail: UseTail, series: Sequence[Series]) -> str:
    pods = pluralize(len(tail.peaks), "series", "series")
    samples = pluralize(sum(map(len, series)), "sample")
    return f"peak {format_bytes(round(tail.peak))} in {format_age(tail.observed)} of {pods} with {samples}"


def _why_right(basis: str, size: Bytes, requested: Bytes, bound: float) -> str:
    if size > requested:
        return f"{basis}; at most {bound:g} would take {format_bytes(size)}"
    return f"{basis}; a smaller size would save less than {SLACK:.0%}"


def _risk(tail: UseTail, size: Bytes, rules: SampleRules) -> float:
    return 0.0 if rules.capacity is not None and size >= rules.capacity else tail.risk(size)


def _round_up(size: float, rules: SampleRules) -> Bytes:
    rounded = Bytes(-int(-size // rules.step) * rules.step)
    return rounded if rules.capacity is None else min(rounded, rules.capacity)


def format_age(seconds: float) -> str:
    """Format a period for people: `45 s`, `30 min`, `12 h`, `7 d`."""
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
