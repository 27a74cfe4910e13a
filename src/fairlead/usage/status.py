"""How current the measured use is, and why: for metrics, `explain`, `doctor` and the log. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.series import Staleness
from fairlead.usage.limits import UseLimits
from fairlead.use import UseFault, UseReport

WORDS: Final[Mapping[UseFault, str]] = {
    UseFault.UNREACHABLE: "the source does not answer",
    UseFault.LAGGING: "samples are too old",
    UseFault.CLOCK_SKEW: "samples are from the future; compare the clocks of the machines",
    UseFault.NOT_A_NUMBER: "values are not numbers",
    UseFault.OUT_OF_RANGE: "values are negative, or more than an accelerator can have",
    UseFault.DUPLICATE: "series answer twice with different values; scrape each target once",
    UseFault.GARBAGE: "the answer is not of the source's protocol",
    UseFault.NO_SERIES: "the source has no series of a known name",
    UseFault.LIMIT: "there are more series, points or bytes than are read",
    UseFault.RESET: "times went backwards; the source was reset or replaced",
}
"""What each fault means, for people."""


@dataclass(frozen=True, slots=True)
class UseStatus:
    """How current the measurements are."""

    source: str = ""
    staleness: Staleness = Staleness.MISSING
    reason: str = "no report yet"
    """For people: why the measurements are not fresh, or what is missing from them; empty: all is well."""
    faults: Mapping[UseFault, int] = field(default_factory=dict)
    """Measurements lost to each fault since the start."""
    devices_fresh: int = 0
    devices_stale: int = 0
    pods_fresh: int = 0
    pods_stale: int = 0
    """Pods count once for each of their devices."""
    age: float | None = None
    """Seconds since the newest sample; None: there was none."""

    def to_json(self) -> dict[str, Any]:
        """Return the status as a JSON object."""
        return {
            "source": self.source,
            "staleness": self.staleness.value,
            "reason": self.reason,
            "faults": {fault.value: number for fault, number in self.faults.items()},
            "devices": {"fresh": self.devices_fresh, "stale": self.devices_stale},
            "pods": {"fresh": self.pods_fresh, "stale": self.pods_stale},
            "age_s": None if self.age is None else round(self.age, 3),
        }


def describe(
    state: Staleness,
    age: float | None,
    report: UseReport | None,
    faults: Mapping[UseFault, int],
    limits: UseLimits,
) -> str:
    """Return why the measurements are not fresh, or what the last report lacks."""
    if report is None:
        return "no report yet"
    why = [report.detail] if report.detail else []
    why += [f"{number} x {fault.value}: {WORDS[fault]}" for fault, number in faults.items() if number]
    if state is Staleness.STALE and age is not None:
        why.insert(0, f"no new sample for {age:.0f} s (limit {limits.fresh:.0f} s)")
    elif state is Staleness.MISSING and not why:
        why.append("the source has no samples")
    return "; ".join(why)
