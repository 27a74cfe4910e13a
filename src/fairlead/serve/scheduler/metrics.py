"""What a scheduler counts, as a page for Prometheus."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from fairlead.metrics import Family

_STEPS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5)
BOUNDS: Final = (*_STEPS, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds."""


@dataclass(slots=True)
class Timings:
    """How long something took, by bounds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0

    def note(self, seconds: float) -> None:
        """Add one."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def families(self, name: str, text: str) -> Iterator[str]:
        """Yield the histogram in the text format."""
        yield f"# HELP {name} {text}\n# TYPE {name} histogram\n"
        sums = list(accumulate(self.counts))
        for bound, number in zip((*BOUNDS, float("inf")), sums, strict=True):
            yield f'{name}_bucket{{le="{"+Inf" if bound == float("inf") else repr(bound)}"}} {number}\n'
        yield f"{name}_sum {self.total!r}\n{name}_count {sums[-1]}\n"


@dataclass(slots=True)
class Metrics:
    """What has been counted since the start."""

    decisions: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By result (`placed`, `refused`, `failed`) and by reason, empty where it was placed."""
    deciding: Timings = field(default_factory=Timings)
    """Seconds for one decision."""
    binding: Timings = field(default_factory=Timings)
    """Seconds from the decision to the binding's answer."""
    waiting: Timings = field(default_factory=Timings)
    """Seconds from when a pod was first seen waiting to the binding's answer."""


@dataclass(frozen=True, slots=True)
class Gauges:
    """The state of a replica at one moment."""

    leading: bool
    turn: int
    waiting: Mapping[str, int]
    """Requests that wait, by state: `ready`, `parked`, `in-flight`."""
    nodes: int
    unreadable_nodes: int = 0


def render(metrics: Metrics, gauges: Gauges, requests: Mapping[tuple[str, str], int]) -> bytes:
    """Return the page; `requests` counts those to the API server, by resource and outcome."""
    families = (
        _one("leading", "gauge", "Whether this replica decides.", float(gauges.leading)),
        _one("turn", "gauge", "Which turn of leading this is.", float(gauges.turn)),
        _one("nodes", "gauge", "Nodes that are known.", float(gauges.nodes)),
        _one("unreadable_nodes", "gauge", "Nodes that cannot be understood.", float(gauges.unreadable_nodes)),
        _many("pods_waiting", "gauge", "Pods without a place.", ("state",), _keyed(gauges.waiting)),
        _many(
            "decisions_total", "counter", "Decisions.", ("result", "reason"), {**_floats(metrics.decisions)}
        ),
        _many("writes_total", "counter", "Writes to the API.", ("what", "result"), _floats(requests)),
    )
    lines = [line for family in families for line in family.lines()]
    lines += metrics.deciding.families("fairlead_scheduler_decision_seconds", "Time for one decision.")
    lines += metrics.binding.families("fairlead_scheduler_binding_seconds", "From a decision to its binding.")
    lines += metrics.waiting.families(
        "fairlead_scheduler_waiting_seconds", "From first sight to its binding."
    )
    return "".join(lines).encode()


def _one(name: str, kind: str, text: str, value: float) -> Family:
    return Family(f"fairlead_scheduler_{name}", kind, text, (), {(): value})


def _many(
    name: str, kind: str, text: str, labels: tuple[str, ...], series: Mapping[tuple[str, ...], float]
) -> Family:
    return Family(f"fairlead_scheduler_{name}", kind, text, labels, series)


def _floats(found: Mapping[tuple[str, str], int]) -> dict[tuple[str, ...], float]:
    return {key: float(value) for key, value in sorted(found.items())}


def _keyed(found: Mapping[str, int]) -> dict[tuple[str, ...], float]:
    return {(key,): float(value) for key, value in found.items()}
