"""The operator's metrics, in the text format of Prometheus."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fairlead.metrics import Histogram, MetricFamily
from fairlead.serve.operator.store import Readiness


@dataclass(slots=True)
class OperatorMetrics:
    """Counters and histograms since the start."""

    passes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Passes over resources, by kind and result."""
    pages: Counter[str] = field(default_factory=Counter)
    """Readings of pages of pods, by result."""
    seconds: Histogram = field(default_factory=Histogram)
    """Seconds from the start of a pass to the answer to its last write."""


@dataclass(frozen=True, slots=True)
class OperatorGauges:
    """The state of a replica at one moment."""

    leading: bool
    leader_epoch: int
    queue: Mapping[str, int]
    """Resources by state: `active`, `running`, `backoff`."""
    resources: Mapping[str, int]
    """Resources by kind."""
    readiness: Sequence[Readiness] = ()


def render(
    metrics: OperatorMetrics, gauges: OperatorGauges, requests: Mapping[tuple[str, str], int]
) -> bytes:
    """Return the page; `requests` counts requests to the API server, by resource and outcome."""
    families = (
        _family("leading", "gauge", "Whether this replica decides.", (), {(): float(gauges.leading)}),
        _family("leader_epoch", "gauge", "The term of this leader.", (), {(): float(gauges.leader_epoch)}),
        _family("queue_resources", "gauge", "Resources to reconcile.", ("state",), _keyed(gauges.queue)),
        _family("resources", "gauge", "Resources in the cluster.", ("kind",), _keyed(gauges.resources)),
        _family(
            "resource_ready",
            "gauge",
            "The condition Ready of a resource, with its reason.",
            ("kind", "object", "reason"),
            {(each.kind, each.name, each.reason): float(each.is_ready) for each in gauges.readiness},
        ),
        _family(
            "reconciles_total",
            "counter",
            "Passes over resources.",
            ("kind", "result"),
            _pairs(metrics.passes),
        ),
        _family(
            "requests_total",
            "counter",
            "Requests to the API, watches not counted.",
            ("resource", "result"),
            _pairs(requests),
        ),
        _family("pages_total", "counter", "Pages of pods.", ("result",), _keyed(metrics.pages)),
    )
    lines = [line for family in families for line in family.lines()]
    lines += metrics.seconds.lines("fairlead_operator_reconcile_seconds", "Time for one pass.")
    return "".join(lines).encode()


def _family(
    name: str, kind: str, text: str, labels: tuple[str, ...], series: Mapping[tuple[str, ...], float]
) -> MetricFamily:
    return MetricFamily(f"fairlead_operator_{name}", kind, text, labels, series)


def _pairs(series: Mapping[tuple[str, str], int]) -> dict[tuple[str, ...], float]:
    return {labels: float(value) for labels, value in sorted(series.items())}


def _keyed(series: Mapping[str, int]) -> dict[tuple[str, ...], float]:
    return {(label,): float(value) for label, value in series.items()}
