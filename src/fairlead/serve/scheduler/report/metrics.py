"""The scheduler's metrics, in the text format of Prometheus."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from fairlead.metrics import Histogram, MetricFamily


@dataclass(slots=True)
class SchedulerMetrics:
    """Counters and histograms since the start."""

    decisions: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Decisions by result (`placed`, `refused`, `failed`) and by reason, empty where the pod was placed."""
    deciding: Histogram = field(default_factory=Histogram)
    """Seconds for one decision."""
    binding: Histogram = field(default_factory=Histogram)
    """Seconds from the decision to the answer of the binding."""
    waiting: Histogram = field(default_factory=Histogram)
    """Seconds from when a pending pod was first seen to the answer of its binding."""


@dataclass(frozen=True, slots=True)
class SchedulerGauges:
    """The state of a replica at one moment."""

    leading: bool
    leader_epoch: int
    pending: Mapping[str, int]
    """Pods without a node, by queue: `active`, `backoff`, `unschedulable`, `in-flight`."""
    nodes: int
    unreadable_nodes: int = 0
    barred: bool = False
    """It leaves a free Lease to a newer replica, whose formats it cannot read."""
    use: "UseGauges | None" = None
    """None: nothing depends on measured use."""


@dataclass(frozen=True, slots=True)
class UseGauges:
    """The state of sharing by measured use."""

    needs: Mapping[str, int]
    """Pods by the source of their need."""
    surprises: int
    actions: Mapping[str, int]
    """Actions of the guard, by kind."""
    footprints: int
    """Workloads whose size is known."""
    families: tuple[MetricFamily, ...] = ()
    """The families about the measurements themselves."""


def render(
    metrics: SchedulerMetrics, gauges: SchedulerGauges, requests: Mapping[tuple[str, str], int]
) -> bytes:
    """Return the page; `requests` counts requests to the API server, by resource and outcome."""
    families = (
        _one("leading", "gauge", "Whether this replica decides.", float(gauges.leading)),
        _one("leader_epoch", "gauge", "The fencing token of this leader.", float(gauges.leader_epoch)),
        _one("nodes", "gauge", "Nodes in the cache.", float(gauges.nodes)),
        _one("unreadable_nodes", "gauge", "Nodes that cannot be read.", float(gauges.unreadable_nodes)),
        _one("barred", "gauge", "Whether this replica is too old to lead.", float(gauges.barred)),
        _many("pending_pods", "gauge", "Pods without a node.", ("queue",), _keyed(gauges.pending)),
        _many(
            "decisions_total", "counter", "Decisions.", ("result", "reason"), {**_floats(metrics.decisions)}
        ),
        _many("writes_total", "counter", "Writes to the API.", ("resource", "result"), _floats(requests)),
    )
    lines = [line for family in (*families, *_use_families(gauges.use)) for line in family.lines()]
    lines += metrics.deciding.lines("fairlead_scheduler_decision_seconds", "Time for one decision.")
    lines += metrics.binding.lines("fairlead_scheduler_binding_seconds", "From a decision to its binding.")
    lines += metrics.waiting.lines(
        "fairlead_scheduler_pod_scheduling_seconds", "From when a pod is first seen to its binding."
    )
    return "".join(lines).encode()


def _use_families(use: UseGauges | None) -> tuple[MetricFamily, ...]:
    if use is None:
        return ()
    surprises = float(use.surprises)
    return (
        _many("needs", "gauge", "Pods by the source of their need.", ("source",), _keyed(use.needs)),
        _one("surprises_total", "counter", "Samples above the largest expected size.", surprises),
        _many("guard_actions_total", "counter", "Pods shrunk or evicted.", ("action",), _keyed(use.actions)),
        _one("footprints", "gauge", "Workloads whose size is known.", float(use.footprints)),
        *use.families,
    )


def _one(name: str, kind: str, text: str, value: float) -> MetricFamily:
    return MetricFamily(f"fairlead_scheduler_{name}", kind, text, (), {(): value})


def _many(
    name: str, kind: str, text: str, labels: tuple[str, ...], series: Mapping[tuple[str, ...], float]
) -> MetricFamily:
    return MetricFamily(f"fairlead_scheduler_{name}", kind, text, labels, series)


def _floats(series: Mapping[tuple[str, str], int]) -> dict[tuple[str, ...], float]:
    return {labels: float(value) for labels, value in sorted(series.items())}


def _keyed(series: Mapping[str, int]) -> dict[tuple[str, ...], float]:
    return {(label,): float(value) for label, value in series.items()}
