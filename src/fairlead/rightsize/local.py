"""Commands that were run on this machine: what was stated for them, and the size that they need; pure.

One row is one resource of one command, or of one model. Risks are about the next run: of n runs and the next,
the next has the highest peak with the probability 1 / (n + 1).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from fairlead.history.learned import LearnedCommand, LearnedRun
from fairlead.rightsize.packing import METHOD
from fairlead.rightsize.recommend import SampleRules, SizeAdvice, Verdict, judge, size_for
from fairlead.rightsize.tail import LEAST_SCALE, UseTail
from fairlead.units import Bytes, format_bytes, pluralize

FEWEST_RUNS: Final = 2
"""Whole runs below which there is no advice: one run says nothing of how runs differ."""
GPU_MEMORY: Final = "gpu-mem"
MEMORY: Final = "memory"
"""The resources, by the options of `fairlead run` that state them."""
_KINDS: Final = {"program": "Command", "model": "Model"}
"""By how the key begins. The exact words of a command have keys as well: their runs count for the program."""
_CHANGES: Final = (Verdict.OVER, Verdict.UNDER)


@dataclass(frozen=True, slots=True)
class LocalRecommendation:
    """What is known and advised about one resource of a command."""

    name: str
    kind: str
    """`Command` or `Model`."""
    resource: str
    runs: int
    """Whole runs that used it."""
    accelerators: int
    requested: Bytes | None
    """What the user stated last; None: nothing, and the next run counts by what was learned."""
    whole: bool
    """Whole accelerators were stated."""
    peaks: tuple[Bytes, ...]
    """The peak of each run, ascending."""
    busy: float | None
    device_memory: Bytes | None
    advice: SizeAdvice

    @property
    def changes(self) -> bool:
        """Whether another size is advised."""
        return self.advice.verdict in _CHANGES

    @property
    def saving(self) -> Bytes:
        """The bytes that each run would give back; negative where it needs more."""
        size = self.advice.size
        if not self.changes or self.requested is None or size is None:
            return Bytes(0)
        return Bytes((self.requested - size) * max(1, self.accelerators))

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract: those of a workload in a cluster, and the risk of a run."""
        device, peaks = self.device_memory, self.peaks
        return {
            "namespace": "",
            "kind": self.kind,
            "workload": self.name,
            "container": self.resource,
            "pods": self.runs,
            "accelerators_per_pod": self.accelerators,
            "request": {
                "form": "whole" if self.whole else "stated" if self.requested else "learned",
                "key": "",
            },
            "requested_bytes": self.requested,
            "samples": self.runs,
            "peak_bytes": peaks[-1] if peaks else None,
            "p99_bytes": peaks[min(len(peaks) - 1, int(0.99 * len(peaks)))] if peaks else None,
            "mean_bytes": round(sum(peaks) / len(peaks)) if peaks else None,
            "busy_ratio": None if self.busy is None else round(self.busy, 4),
            "recommended_bytes": self.advice.size,
            "risk_per_day": None,
            "risk_per_run": self.advice.risk,
            "saving_bytes": self.saving,
            "saving_accelerators": round(self.saving / device, 3) if device else None,
            "verdict": self.advice.verdict.value,
            "reason": self.advice.reason,
        }


@dataclass(frozen=True, slots=True)
class LocalSizeReport:
    """All recommendations for the commands of one user on this machine."""

    recommendations: tuple[LocalRecommendation, ...]
    bound: float
    window: float | None
    """Seconds before now; older runs do not count. None: all that are kept."""

    @property
    def changes(self) -> tuple[LocalRecommendation, ...]:
        """The recommendations with another size."""
        return tuple(each for each in self.recommendations if each.changes)

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {
            "bound": self.bound,
            "window_seconds": self.window,
            "recommendations": [each.to_json() for each in self.recommendations],
            "unmatched_series": 0,
            "saving": {
                "bytes": sum(each.saving for each in self.recommendations),
                "accelerators_requested": None,
                "accelerators_recommended": None,
                "accelerators": None,
                "packing": METHOD,
            },
        }


def local_report(
    learned: Iterable[LearnedCommand], bound: float, now: float, window: float | None = None
) -> LocalSizeReport:
    """Return a recommendation for each resource of each command that has run; `now` is in epoch seconds."""
    since = float("-inf") if window is None else now - window
    rows = []
    for command in learned:
        kind = _KINDS.get(command.key.partition("-")[0])
        runs = [run for run in command.runs if run.ended >= since]
        if kind is None or not runs:
            continue
        if any(run.gpu_memory or run.gpu_requested for run in runs):
            rows.append(_row(command, kind, GPU_MEMORY, runs, bound))
        rows.append(_row(command, kind, MEMORY, runs, bound))
    return LocalSizeReport(tuple(sorted(rows, key=lambda row: (row.name, row.kind))), bound, window)


def _row(
    command: LearnedCommand, kind: str, resource: str, runs: Sequence[LearnedRun], bound: float
) -> LocalRecommendation:
    on_gpu = resource == GPU_MEMORY
    amounts = [run.gpu_memory if on_gpu else run.memory for run in runs if run.done]
    peaks = tuple(sorted(amount for amount in amounts if amount))
    requested = runs[-1].gpu_requested if on_gpu else runs[-1].memory_requested
    device = next((run.gpu_total for run in reversed(runs) if run.gpu_total), None) if on_gpu else None
    busy = [run.busy for run in runs if run.busy is not None]
    shorts = sum(run.short for run in runs) if on_gpu else 0
    return LocalRecommendation(
        name=command.name,
        kind=kind,
        resource=resource,
        runs=len(peaks),
        accelerators=runs[-1].gpus if on_gpu else 0,
        requested=requested,
        whole=on_gpu and requested is not None and runs[-1].whole,
        peaks=peaks,
        busy=sum(busy) / len(busy) if on_gpu and busy else None,
        device_memory=device,
        advice=_advice(requested, peaks, bound, SampleRules(capacity=device, crashes=shorts, crash="exit")),
    )


def _advice(requested: Bytes | None, peaks: Sequence[Bytes], bound: float, rules: SampleRules) -> SizeAdvice:
    if len(peaks) < FEWEST_RUNS:
        why = f"too few runs: {len(peaks)} instead of {FEWEST_RUNS}"
        return SizeAdvice(None, None, Verdict.UNKNOWN, why)
    scale = max(LEAST_SCALE * peaks[-1], peaks[-1] - median(peaks))
    tail = UseTail(peaks[-1], scale, float(len(peaks)), tuple(map(float, peaks)), horizon=1.0)
    basis = f"peak {format_bytes(peaks[-1])} in {pluralize(len(peaks), 'run')}"
    if requested is not None:
        return judge(requested, tail, basis, bound, rules)
    size = size_for(tail, bound, rules)
    why = f"{basis}; no size is stated: the next run counts by what was learned"
    return SizeAdvice(size, tail.risk(size), Verdict.RIGHT, why)
