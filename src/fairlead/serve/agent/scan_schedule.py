"""When the agent scans and samples next: pure decisions about time."""

from dataclasses import dataclass, replace
from typing import Final

from fairlead.settings.agent import AgentSettings
from fairlead.units import Seconds

_MAX_DEBOUNCES: Final = 10
"""An endless burst of events delays the scan by at most this number of debounce times."""


@dataclass(frozen=True, slots=True)
class ScanSchedule:
    """When the next sweep, sample and event scan are due, on a monotonic clock."""

    sweep_at: Seconds
    sample_at: Seconds
    event_at: Seconds | None = None
    """When the current burst of events counts as settled; None where no event is pending."""
    burst_from: Seconds | None = None


def after_uevent(schedule: ScanSchedule, now: Seconds, settings: AgentSettings) -> ScanSchedule:
    """Return the schedule after the kernel reported a changed device."""
    since = now if schedule.burst_from is None else schedule.burst_from
    latest = since + _MAX_DEBOUNCES * settings.debounce
    return replace(schedule, event_at=Seconds(min(now + settings.debounce, latest)), burst_from=since)


def scan_cause(schedule: ScanSchedule, now: Seconds) -> str | None:
    """Return what makes a scan due now: a settled burst of events, or the sweep interval."""
    if schedule.event_at is not None and now >= schedule.event_at:
        return "uevent"
    return "sweep" if now >= schedule.sweep_at else None


def after_scan(schedule: ScanSchedule, now: Seconds, settings: AgentSettings) -> ScanSchedule:
    """Return the schedule after a scan: a sample is due at once."""
    return replace(
        schedule, sweep_at=Seconds(now + settings.sweep), sample_at=now, event_at=None, burst_from=None
    )


def after_sample(schedule: ScanSchedule, now: Seconds, settings: AgentSettings) -> ScanSchedule:
    """Return the schedule after a sample; it keeps its phase unless it missed a beat."""
    beat = schedule.sample_at + settings.sample
    return replace(schedule, sample_at=Seconds(beat if beat > now else now + settings.sample))


def time_until_due(schedule: ScanSchedule, now: Seconds) -> Seconds:
    """Return the time until something is due."""
    times = [
        schedule.sweep_at,
        schedule.sample_at,
        *([] if schedule.event_at is None else [schedule.event_at]),
    ]
    return Seconds(max(0.0, min(times) - now))
