"""The figures of a simulation: the contract of `-o json`, the same for every policy."""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil
from typing import Any, Final

from fairlead.simulate.play.simulation import JobRecord, JobState, SimulationOutcome
from fairlead.simulate.report.recorder import FIELDS
from fairlead.simulate.trace.job import Trace
from fairlead.simulate.trace.settings import SimulationSettings

POINTS: Final = 200
"""The most points of a series."""
_SERIES: Final = ("allocated", "fragmented", "capacity", "waiting", "running", "memory", "busy", "watts")


def document(
    trace: Trace, settings: SimulationSettings, seed: int, outcomes: Iterable[SimulationOutcome]
) -> dict[str, Any]:
    """Return the whole report."""
    return {
        "trace": trace.name,
        "jobs": len(trace.jobs),
        "seed": seed,
        "settings": {
            "interference": settings.interference,
            "queue": settings.queue,
            "keep_progress": settings.keep_progress,
            "preemption": settings.preemption,
        },
        "policies": [figures(outcome) for outcome in outcomes],
    }


def figures(outcome: SimulationOutcome) -> dict[str, Any]:
    """Return the figures of one policy on the trace."""
    records, recorder = outcome.records, outcome.recorder
    arrived = [record for record in records if record.state is not JobState.TO_COME]
    states = Counter(record.state for record in arrived)
    capacity = recorder.mean("capacity") or 1.0
    return {
        "policy": outcome.policy,
        "arrived": len(arrived),
        "done": states[JobState.DONE],
        "running": states[JobState.RUNNING],
        "waiting": states[JobState.WAITING],
        "refused": states[JobState.REFUSED],
        "failed": states[JobState.FAILED],
        "end_s": _round(outcome.end),
        "makespan_s": _round(_makespan(arrived)),
        "wait_s": summarize(
            [_wait(record, outcome.end) for record in arrived if record.state is not JobState.REFUSED]
        ),
        "completion_s": summarize(
            [record.finished - record.job.arrival for record in arrived if record.finished is not None]
        ),
        "allocation_percent": _percents(outcome, "allocated", capacity),
        "fragmentation_percent": _percents(outcome, "fragmented", capacity),
        "utilisation_percent": _percents(outcome, "busy", capacity),
        "memory_used_bytes": {"mean": round(recorder.mean("memory")), "peak": round(recorder.peak("memory"))},
        "queue": {"mean": _round(recorder.mean("waiting")), "peak": round(recorder.peak("waiting"))},
        "energy_j": round(recorder.total("watts")),
        "power_w": _round(recorder.mean("watts")),
        "refusals": _reasons(record for record in arrived if record.state is JobState.REFUSED),
        "waits": _reasons(record for record in arrived if record.state is not JobState.REFUSED),
        "memory_kills": sum(record.kills for record in arrived),
        "preemptions": sum(record.preemptions for record in arrived),
        "evictions": sum(record.evictions for record in arrived),
        "faults": outcome.faults,
        "events": outcome.events,
        "decisions": outcome.decisions,
        "series": series(outcome),
    }


def summarize(values: Sequence[float]) -> dict[str, float | None]:
    """Return mean, median, 99th percentile and worst; None without values."""
    ordered = sorted(values)
    if not ordered:
        return {"mean": None, "p50": None, "p99": None, "worst": None}
    return {
        "mean": _round(sum(ordered) / len(ordered)),
        "p50": _round(_quantile(ordered, 0.50)),
        "p99": _round(_quantile(ordered, 0.99)),
        "worst": _round(ordered[-1]),
    }


def series(outcome: SimulationOutcome) -> dict[str, list[float]]:
    """Return gauges over time, as means over stretches that begin at `at_s`."""
    rows = outcome.recorder.rows
    step = max(1, ceil(len(rows) / POINTS))
    result: dict[str, list[float]] = {"at_s": [], **{name: [] for name in _SERIES}}
    for first in range(0, len(rows), step):
        part = rows[first : first + step]
        seconds = part[-1].end - part[0].start
        result["at_s"].append(_round(part[0].start))
        for name in _SERIES:
            index = FIELDS.index(name)
            area = sum(row.means[index] * (row.end - row.start) for row in part)
            result[name].append(_round(area / seconds))
    return result


def _quantile(ordered: Sequence[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, ceil(part * len(ordered)) - 1)]


def _wait(record: JobRecord, end: float) -> float:
    """Return how long a job waited for its first place; until the end, if it never got one."""
    return (end if record.placed is None else record.placed) - record.job.arrival


def _makespan(records: Iterable[JobRecord]) -> float:
    return max((record.finished for record in records if record.finished is not None), default=0.0)


def _percents(outcome: SimulationOutcome, name: str, capacity: float) -> dict[str, float]:
    recorder = outcome.recorder
    peak = recorder.peak("capacity") or 1.0
    return {
        "mean": _round(100 * recorder.mean(name) / capacity),
        "peak": _round(100 * recorder.peak(name) / peak),
    }


def _reasons(records: Iterable[JobRecord]) -> dict[str, int]:
    """Count jobs by the main reason of their first refusal, the most frequent first."""
    main = (
        max(record.refusal.rejections, key=lambda rejection: rejection.count).reason.value
        for record in records
        if record.refusal is not None and record.refusal.rejections
    )
    return dict(sorted(Counter(main).items(), key=lambda item: (-item[1], item[0])))


def _round(value: float) -> float:
    return round(value, 3) + 0.0  # no negative zero
