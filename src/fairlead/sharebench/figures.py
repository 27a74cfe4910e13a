"""The figures of one arrangement, from what its engines and the GPU did; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from fairlead.schedule.filter.interference import mps_p99, time_slicing_p99
from fairlead.sharebench.outcome import EngineOutcome
from fairlead.sharebench.samples import GpuSample, between, gpu_figures, mean_busy, most_memory
from fairlead.sizing.published import percentile

_MIB: Final = 1 << 20
_MILLI: Final = 1e3


@dataclass(frozen=True, slots=True)
class SoloRun:
    """An engine that had the accelerator alone."""

    seconds: float
    """From its start to its end."""
    serving_s: float
    """Of it, those in which it served queries."""
    p50_ms: float
    p99_ms: float
    digest: str
    busy: float | None
    """The part of the serving time in which the GPU was busy; None: not measured."""
    memory_mib: float | None
    """The most memory of the GPU in use, beyond the least before its start; None: not measured."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the document."""
        return asdict(self)


def solo_run(outcome: EngineOutcome, samples: Sequence[GpuSample]) -> SoloRun | None:
    """Return what a solo run shows; None: it failed."""
    events = outcome.events
    if outcome.failed or events is None or events.ready is None or events.done is None:
        return None
    began, ended = outcome.started or events.started or events.ready, outcome.ended or events.done
    most = most_memory(between(samples, began, ended))
    before = min((each.memory for each in samples if each.at < began and each.memory is not None), default=0)
    return SoloRun(
        round(ended - began, 3),
        round(sum(events.latencies), 3),
        _milliseconds(events.latencies, 0.5),
        _milliseconds(events.latencies, 0.99),
        events.digest,
        mean_busy(between(samples, events.ready, events.done)),
        None if most is None else round(max(0, most - before) / _MIB, 1),
    )


def arrangement_figures(
    outcomes: Sequence[EngineOutcome],
    samples: Sequence[GpuSample],
    solo: Mapping[str, SoloRun],
    *,
    mps: bool,
) -> dict[str, Any]:
    """Return what an arrangement did: times, queries, the GPU, failures and slowdowns."""
    began = min(outcome.submitted for outcome in outcomes)
    ended = max((outcome.ended or outcome.submitted for outcome in outcomes), default=began)
    pending = [outcome.started - outcome.submitted for outcome in outcomes if outcome.started is not None]
    latencies = [seconds for outcome in outcomes for seconds in _latencies(outcome)]
    return {
        "makespan_s": round(ended - began, 3),
        "pending_mean_s": round(sum(pending) / len(pending), 3) if pending else None,
        "pending_worst_s": round(max(pending), 3) if pending else None,
        "most_at_once": _most_at_once(outcomes),
        **_quantiles(latencies),
        "networks": _by_network(outcomes),
        **gpu_figures(between(samples, began, ended)),
        "failures": [_failure(outcome) for outcome in outcomes if outcome.failed],
        "outputs_equal": _outputs_equal(outcomes, solo),
        "slowdown": slowdowns(outcomes, solo, mps=mps),
    }


def slowdowns(outcomes: Sequence[EngineOutcome], solo: Mapping[str, SoloRun], *, mps: bool) -> dict[str, Any]:
    """Return the slowdowns of p99 that fairlead-safe predicts, and the measured p99 over the solo run's.

    With every placement the engine predicts the slowdown of all holders of the accelerator: for an engine
    the highest of those predictions during its life counts.
    """
    rows = []
    for outcome in outcomes:
        alone, latencies = solo.get(outcome.engine.kind.name), _latencies(outcome)
        if alone is not None and latencies and alone.p99_ms:
            measured = _milliseconds(latencies, 0.99) / alone.p99_ms
            rows.append((predicted_slowdown(outcome, outcomes, solo, mps=mps), measured))
    return {
        "predicted_worst": round(max(row[0] for row in rows), 2) if rows else None,
        "measured_worst": round(max(row[1] for row in rows), 2) if rows else None,
        "engines_within": sum(measured <= predicted for predicted, measured in rows),
        "engines": len(rows),
    }


def predicted_slowdown(
    outcome: EngineOutcome, outcomes: Sequence[EngineOutcome], solo: Mapping[str, SoloRun], *, mps: bool
) -> float:
    """Return the highest slowdown that a placement during the life of an engine predicts."""
    model, worst = mps_p99 if mps else time_slicing_p99, 1.0
    for other in outcomes:
        if other.started is not None and _runs_at(outcome, other.started):
            beside = [each for each in outcomes if _runs_at(each, other.started)]
            load = sum(_busy(solo.get(each.engine.kind.name)) for each in beside)
            worst = max(worst, model(len(beside), load))
    return worst


def _busy(alone: SoloRun | None) -> float:
    return 0.0 if alone is None or alone.busy is None else alone.busy


def _runs_at(outcome: EngineOutcome, time: float) -> bool:
    return outcome.started is not None and outcome.started <= time and (outcome.ended or time + 1) > time


def _most_at_once(outcomes: Sequence[EngineOutcome]) -> int:
    starts = [outcome.started for outcome in outcomes if outcome.started is not None]
    return max((sum(_runs_at(each, start) for each in outcomes) for start in starts), default=0)


def _by_network(outcomes: Sequence[EngineOutcome]) -> dict[str, Any]:
    by_name: dict[str, list[float]] = {}
    for outcome in sorted(outcomes, key=lambda each: each.engine.kind.name):
        by_name.setdefault(outcome.engine.kind.name, []).extend(_latencies(outcome))
    return {name: _quantiles(latencies) for name, latencies in by_name.items()}


def _latencies(outcome: EngineOutcome) -> tuple[float, ...]:
    return outcome.events.latencies if outcome.events is not None else ()


def _quantiles(latencies: Sequence[float]) -> dict[str, float | None]:
    return {
        "query_p50_ms": _milliseconds(latencies, 0.5) if latencies else None,
        "query_p99_ms": _milliseconds(latencies, 0.99) if latencies else None,
    }


def _milliseconds(latencies: Sequence[float], part: float) -> float:
    return round(percentile(latencies, part) * _MILLI, 3)


def _failure(outcome: EngineOutcome) -> dict[str, Any]:
    refused = outcome.events is not None and outcome.events.refused is not None
    reason = outcome.reason or (outcome.events.error if outcome.events is not None else "")
    return {
        "engine": outcome.engine.name,
        "exit_code": outcome.exit_code,
        "out_of_memory": refused,
        "reason": reason,
    }


def _outputs_equal(outcomes: Sequence[EngineOutcome], solo: Mapping[str, SoloRun]) -> bool | None:
    """Return whether every engine answered as alone; None: there is none to compare."""
    pairs = [
        (outcome.events.digest, solo[outcome.engine.kind.name].digest)
        for outcome in outcomes
        if outcome.events is not None and outcome.events.digest and outcome.engine.kind.name in solo
    ]
    return all(one == other for one, other in pairs) if pairs else None
