"""When the agent looks again: pure decisions about time."""

from dataclasses import dataclass, replace
from typing import Final

from fairlead.settings.agent import AgentSettings
from fairlead.units import Seconds

_PATIENCE: Final = 10
"""A burst of events that never ends puts the scan off for so many debounce times, and no longer."""


@dataclass(frozen=True, slots=True)
class ScanSchedule:
    """What is due when, on a clock that never steps back."""

    sweep_at: Seconds
    sample_at: Seconds
    event_at: Seconds | None = None
    """When the burst of events that is going on will have settled; None while nothing happened."""
    burst_from: Seconds | None = None


def after_uevent(plan: ScanSchedule, now: Seconds, settings: AgentSettings) -> ScanSchedule:
    """Return the plan after the kernel reported a change."""
    since = now if plan.burst_from is None else plan.burst_from
    latest = since + _PATIENCE * settings.debounce
    return replace(plan, event_at=Seconds(min(now + settings.debounce, latest)), burst_from=since)


def scan_cause(plan: ScanSchedule, now: Seconds) -> str | None:
    """Return what makes a scan due now: a settled burst of events, or the time."""
    if plan.event_at is not None and now >= plan.event_at:
        return "uevent"
    return "sweep" if now >= plan.sweep_at else None


def after_scan(plan: ScanSchedule, now: Seconds, settings: AgentSettings) -> ScanSchedule:
    """Return the plan after a scan; what it found is measured at once."""
    return replace(
        plan, sweep_at=Seconds(now + settings.sweep), sample_at=now, event_at=None, burst_from=None
    )


def after_sample(plan: ScanSchedule, now: Seconds, settings: AgentSettings) -> ScanSchedule:
    """Return the plan after a measurement, on its old beat unless that was missed."""
    beat = plan.sample_at + settings.sample
    return replace(plan, sample_at=Seconds(beat if beat > now else now + settings.sample))


def time_until_due(plan: ScanSchedule, now: Seconds) -> Seconds:
    """Return how long nothing is due."""
    times = [plan.sweep_at, plan.sample_at, *([] if plan.event_at is None else [plan.event_at])]
    return Seconds(max(0.0, min(times) - now))
