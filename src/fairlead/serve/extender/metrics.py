"""What an extender counts, as a page for Prometheus."""

from collections import Counter
from dataclasses import dataclass, field

from fairlead.metrics import Histogram, MetricFamily


@dataclass(slots=True)
class ExtenderMetrics:
    """What has been counted since the start."""

    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By verb and by HTTP status."""
    nodes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Judged: by result (`passed`, `refused`) and by reason, empty where it passed."""
    delayed: int = 0
    """Answers that were held back until it was known where other pods went."""
    filtering: Histogram = field(default_factory=Histogram)
    prioritizing: Histogram = field(default_factory=Histogram)


def render(counts: ExtenderMetrics, doubts: int, nodes: int, unreadable: int) -> bytes:
    """Return the page."""
    families = (
        _one("nodes", "gauge", "Nodes that are known.", nodes),
        _one("unreadable_nodes", "gauge", "Nodes that cannot be understood.", unreadable),
        _one(
            "unconfirmed_pods", "gauge", "Pods that passed the filter and are not seen on a node yet.", doubts
        ),
        _one(
            "delayed_answers_total",
            "counter",
            "Answers delayed until earlier pods were seen on a node.",
            counts.delayed,
        ),
        _many("requests_total", "Requests.", ("verb", "code"), counts.requests),
        _many("nodes_evaluated_total", "Nodes that were evaluated.", ("result", "reason"), counts.nodes),
    )
    lines = [line for family in families for line in family.lines()]
    lines += counts.filtering.lines("fairlead_extender_filter_seconds", "Time for one filter.")
    lines += counts.prioritizing.lines("fairlead_extender_prioritize_seconds", "Time for one prioritize.")
    return "".join(lines).encode()


def _one(name: str, kind: str, text: str, value: int) -> MetricFamily:
    return MetricFamily(f"fairlead_extender_{name}", kind, text, (), {(): float(value)})


def _many(name: str, text: str, labels: tuple[str, str], found: Counter[tuple[str, str]]) -> MetricFamily:
    series: dict[tuple[str, ...], float] = {key: float(value) for key, value in sorted(found.items())}
    return MetricFamily(f"fairlead_extender_{name}", "counter", text, labels, series)
