"""The metrics of an extender, as a page for Prometheus."""

from collections import Counter
from dataclasses import dataclass, field

from fairlead.metrics import Histogram, MetricFamily


@dataclass(slots=True)
class ExtenderMetrics:
    """The counters and histograms since the start."""

    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By verb and by HTTP status."""
    nodes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Evaluated nodes, by result (`passed`, `refused`) and by reason, empty where the node passed."""
    delayed: int = 0
    """Answers that were delayed until the bindings of earlier pods arrived."""
    filtering: Histogram = field(default_factory=Histogram)
    prioritizing: Histogram = field(default_factory=Histogram)


def render(counts: ExtenderMetrics, unconfirmed: int, nodes: int, unreadable: int) -> bytes:
    """Return the metrics page."""
    families = (
        _single("nodes", "gauge", "Nodes that are known.", nodes),
        _single("unreadable_nodes", "gauge", "Nodes that cannot be understood.", unreadable),
        _single(
            "unconfirmed_pods",
            "gauge",
            "Pods that passed the filter and are not seen on a node yet.",
            unconfirmed,
        ),
        _single(
            "delayed_answers_total",
            "counter",
            "Answers delayed until earlier pods were seen on a node.",
            counts.delayed,
        ),
        _labelled("requests_total", "Requests.", ("verb", "code"), counts.requests),
        _labelled("nodes_evaluated_total", "Nodes that were evaluated.", ("result", "reason"), counts.nodes),
    )
    lines = [line for family in families for line in family.lines()]
    lines += counts.filtering.lines("fairlead_extender_filter_seconds", "Time for one filter.")
    lines += counts.prioritizing.lines("fairlead_extender_prioritize_seconds", "Time for one prioritize.")
    return "".join(lines).encode()


def _single(name: str, kind: str, text: str, value: int) -> MetricFamily:
    return MetricFamily(f"fairlead_extender_{name}", kind, text, (), {(): float(value)})


def _labelled(
    name: str, text: str, labels: tuple[str, str], counts: Counter[tuple[str, str]]
) -> MetricFamily:
    series: dict[tuple[str, ...], float] = {key: float(value) for key, value in sorted(counts.items())}
    return MetricFamily(f"fairlead_extender_{name}", "counter", text, labels, series)
