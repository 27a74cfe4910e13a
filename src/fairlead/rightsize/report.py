"""The recommendations for the workloads of a cluster, and what they save."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fairlead.rightsize.matching import match
from fairlead.rightsize.packing import METHOD, fleet_size
from fairlead.rightsize.recommend import (
    DEFAULT_RISK,
    MIN_SAMPLES,
    STALE_AFTER,
    SampleRules,
    SizeAdvice,
    Verdict,
    recommend,
)
from fairlead.rightsize.tail import DAY
from fairlead.rightsize.workload import ENDING_KINDS, PodSeries, SizedContainer
from fairlead.series import Series
from fairlead.units import Bytes

CHANGES: Final = (Verdict.OVER, Verdict.UNDER)


@dataclass(frozen=True, slots=True)
class AdviceOptions:
    """What a report is made with."""

    now: float
    bound: float = DEFAULT_RISK
    window: float = DAY
    """Seconds before now; older samples do not count."""
    min_samples: int = MIN_SAMPLES


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What is known and advised about one container of a workload; sizes are of each accelerator."""

    container: SizedContainer
    advice: SizeAdvice
    samples: int = 0
    peak: Bytes | None = None
    p99: Bytes | None = None
    mean: Bytes | None = None
    busy: float | None = None
    """The mean share of time with work."""

    @property
    def changes(self) -> bool:
        """Whether another size is advised."""
        return self.advice.verdict in CHANGES

    @property
    def saving(self) -> Bytes:
        """The bytes that all running pods together would give back; negative where they need more."""
        requested, size = self.container.requested, self.advice.size
        if not self.changes or requested is None or size is None:
            return Bytes(0)
        return Bytes((requested - size) * self.container.accelerators * len(self.container.pods))

    @property
    def saved_accelerators(self) -> float | None:
        """The saving as a part of accelerators; None: their memory is not known."""
        memory = self.container.device_memory
        return self.saving / memory if memory else None

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        workload, accelerators = self.container.workload, self.saved_accelerators
        return {
            "namespace": workload.namespace,
            "kind": workload.kind,
            "workload": workload.name,
            "container": self.container.container,
            "pods": len(self.container.pods),
            "accelerators_per_pod": self.container.accelerators,
            "request": {"form": self.container.field.form.value, "key": self.container.field.key},
            "requested_bytes": self.container.requested,
            "samples": self.samples,
            "peak_bytes": self.peak,
            "p99_bytes": self.p99,
            "mean_bytes": self.mean,
            "busy_ratio": self.busy,
            "recommended_bytes": self.advice.size,
            "risk_per_day": self.advice.risk,
            "saving_bytes": self.saving,
            "saving_accelerators": None if accelerators is None else round(accelerators, 3),
            "verdict": self.advice.verdict.value,
            "reason": self.advice.reason,
        }


@dataclass(frozen=True, slots=True)
class SizeReport:
    """All recommendations, and the accelerators that the fleet needs with and without them."""

    recommendations: tuple[Recommendation, ...]
    options: AdviceOptions
    unmatched: int = 0
    """Series that belong to no container with a request."""

    @property
    def changes(self) -> tuple[Recommendation, ...]:
        """The recommendations with another size."""
        return tuple(each for each in self.recommendations if each.changes)

    def accelerators(self, *, advised: bool) -> int | None:
        """Return how many accelerators the running pods need; None: the memory of none is known."""
        sizes: dict[Bytes, list[int]] = {}
        for each in self.recommendations:
            container = each.container
            size = each.advice.size if advised and each.changes else container.requested
            if container.device_memory and size is not None:
                number = container.accelerators * len(container.pods)
                sizes.setdefault(container.device_memory, []).extend([size] * number)
        return fleet_size(sizes) if sizes else None

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        now, then = self.accelerators(advised=False), self.accelerators(advised=True)
        return {
            "bound": self.options.bound,
            "window_seconds": self.options.window,
            "recommendations": [each.to_json() for each in self.recommendations],
            "unmatched_series": self.unmatched,
            "saving": {
                "bytes": sum(each.saving for each in self.recommendations),
                "accelerators_requested": now,
                "accelerators_recommended": then,
                "accelerators": None if now is None or then is None else now - then,
                "packing": METHOD,
            },
        }


def report(
    containers: Sequence[SizedContainer], series: Iterable[PodSeries], options: AdviceOptions
) -> SizeReport:
    """Return a recommendation for each container, by workload."""
    start = options.now - options.window
    recent = [replace(each, memory=each.memory.since(start), busy=each.busy.since(start)) for each in series]
    matched = match(containers, recent)
    rows = [
        _recommendation(container, found, options)
        for container, found in zip(containers, matched.by_container, strict=True)
    ]
    ordered = sorted(rows, key=lambda row: (row.container.workload, row.container.container))
    return SizeReport(tuple(ordered), options, matched.unmatched)


def _recommendation(
    container: SizedContainer, found: Sequence[PodSeries], options: AdviceOptions
) -> Recommendation:
    series = [each.memory for each in found if each.memory]
    values = sorted(value for each in series for value in each.values)
    busy = [value for each in found for value in each.busy.values]
    row = Recommendation(
        container,
        _advice(container, series, options),
        len(values),
        busy=round(sum(busy) / len(busy), 4) if busy else None,
    )
    if not values:
        return row
    p99 = values[min(len(values) - 1, -int(-0.99 * len(values) // 1) - 1)]
    mean = sum(values) / len(values)
    return replace(row, peak=Bytes(round(values[-1])), p99=Bytes(round(p99)), mean=Bytes(round(mean)))


def _advice(container: SizedContainer, series: Sequence[Series], options: AdviceOptions) -> SizeAdvice:
    if container.requested is None:
        return SizeAdvice(None, None, Verdict.UNKNOWN, container.note or "its request is not known")
    ends = container.workload.kind in ENDING_KINDS
    rules = SampleRules(
        options.min_samples,
        options.window if ends else STALE_AFTER,
        container.step,
        container.device_memory,
        container.crashes,
    )
    return recommend(container.requested, series, options.bound, options.now, rules)
