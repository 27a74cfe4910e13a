"""The results of each scheduler, their tables, and the verdicts on the bars. Pure."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from fairlead.units import format_bytes

STEADY = (0.1, 0.9)
"""The rate is measured between these quantiles of all bindings: start and end are not a steady state."""
_LEAST = 20
"""The fewest bindings for a rate."""


@dataclass(frozen=True, slots=True)
class Case:
    """One scheduler on one kind of work."""

    name: str
    peer: str
    kind: str
    pods: int
    limit: float = 180.0
    """The most seconds after the last pod is created; pods bound later are not counted."""
    rounds: int = 2
    before: bool = False
    """All pods are created before the scheduler starts."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of a case in one round."""

    case: Case
    round: int
    bound: int
    seconds: float
    """From the first pod created to the last one bound."""
    rate: float
    latency: tuple[float, float]
    """Seconds from created to bound: the median and the 99th percentile; 0: the pods were created before."""
    decision: tuple[float, float]
    cpu: float
    """Milliseconds of the scheduler's CPU time per pod."""
    others: Mapping[str, float] = field(default_factory=dict)
    """The same of the lab's programs, minus their idle CPU time."""
    memory: int = 0
    start: float = 0.0
    """Seconds until it was ready."""
    held: Mapping[str, int] = field(default_factory=dict)
    """Bytes of memory that the lab's programs held."""

    def to_json(self) -> dict[str, Any]:
        """Return the result as a document."""
        return {
            "case": self.case.name,
            "scheduler": self.case.peer,
            "round": self.round,
            "pods": self.case.pods,
            "bound": self.bound,
            "seconds": round(self.seconds, 2),
            "pods_per_second": round(self.rate, 1),
            "create_to_bound_seconds": {"p50": self.latency[0], "p99": self.latency[1]},
            "decision_seconds": {"p50": self.decision[0], "p99": self.decision[1]},
            "cpu_ms_per_pod": {"scheduler": round(self.cpu, 3), **self.others},
            "scheduler_memory_bytes": self.memory,
            "memory_bytes": dict(self.held),
            "scheduler_start_seconds": round(self.start, 1),
        }


@dataclass(frozen=True, slots=True)
class Bar:
    """The ratio that one scheduler must reach beside another."""

    text: str
    mine: tuple[str, str]
    """A case's name and a scheduler."""
    theirs: tuple[str, str]
    what: Callable[[CaseResult], float]
    target: float
    most: bool = False
    """The target is an upper limit."""


def rate(moments: Iterable[float]) -> float:
    """Return the events per second of the steady part; 0 if there are too few."""
    ordered = sorted(moments)
    if len(ordered) < _LEAST:
        return 0.0
    low, high = (int(len(ordered) * part) for part in STEADY)
    return (high - low) / max(1e-9, ordered[high] - ordered[low])


def spread(values: Iterable[float]) -> tuple[float, float]:
    """Return the median and the 99th percentile."""
    ordered = sorted(values)
    if not ordered:
        return 0.0, 0.0
    return round(ordered[len(ordered) // 2], 4), round(ordered[int(len(ordered) * 0.99)], 4)


def quantiles(counts: Mapping[float, float]) -> tuple[float, float]:
    """Return the same of a histogram, interpolated linearly as Prometheus does."""
    return _quantile(counts, 0.5), _quantile(counts, 0.99)


def _quantile(counts: Mapping[float, float], part: float) -> float:
    steps = [(0.0, 0.0), *sorted(counts.items())]
    wanted = part * steps[-1][1]
    for (low, before), (high, until) in pairwise(steps):
        if until >= wanted and until > before:
            top = low if high == float("inf") else high
            return round(low + (top - low) * (wanted - before) / (until - before), 6)
    return 0.0


HEAD = ("WORK", "SCHEDULER", "PODS", "BOUND/S", "DECISION P50", "P99", "CREATED-BOUND P50", "P99")
USE_HEAD = ("WORK", "SCHEDULER", "CPU/POD", "API SERVER", "ETCD", "CONTROLLERS", "KWOK", "MEMORY", "START")


def rows(results: Sequence[CaseResult]) -> list[tuple[str, ...]]:
    """Return the speeds for a table, a line for each case: medians of its rounds."""
    return [
        (
            each.name,
            each.peer,
            f"{min(one.bound for one in mine)} of {each.pods}",
            _range([one.rate for one in mine], ".0f"),
            *map(_seconds, _medians([one.decision for one in mine])),
            *map(_seconds, _medians([one.latency for one in mine])),
        )
        for each, mine in _group_by_case(results)
    ]


def use_rows(results: Sequence[CaseResult]) -> list[tuple[str, ...]]:
    """Return the CPU and memory as rows of a table."""
    programs = ("kube-apiserver", "etcd", "kube-controller-manager", "kwok")
    return [
        (
            each.name,
            each.peer,
            f"{_range([one.cpu for one in mine], '.2f')} ms",
            *(f"{statistics.median(one.others.get(name, 0.0) for one in mine):.2f} ms" for name in programs),
            format_bytes(max(one.memory for one in mine)),
            f"{statistics.median(one.start for one in mine):.1f} s",
        )
        for each, mine in _group_by_case(results)
    ]


def verdicts(results: Sequence[CaseResult], bars: Iterable[Bar]) -> list[dict[str, Any]]:
    """Return the verdict on each bar; an unmeasured bar is missed."""
    return [_verdict(results, bar) for bar in bars]


def _verdict(results: Sequence[CaseResult], bar: Bar) -> dict[str, Any]:
    sides = [
        [result for result in results if (result.case.name, result.case.peer) == side]
        for side in (bar.mine, bar.theirs)
    ]
    verdict: dict[str, Any] = {"bar": bar.text, "target": bar.target, "at_most": bar.most}
    if not all(sides):
        return {**verdict, "ratio": None, "met": False}
    mine, theirs = (_median(side, bar.what) for side in sides)
    ratio = mine / theirs if theirs else float("inf")
    met = ratio <= bar.target if bar.most else ratio >= bar.target
    return {
        **verdict,
        "mine": round(mine, 3),
        "theirs": round(theirs, 3),
        "ratio": round(ratio, 3),
        "met": met,
    }


def rate_limit(results: Sequence[CaseResult], noop: tuple[str, str], work: str) -> str:
    """Return the limit of the rates: how near each scheduler comes to one without decisions."""
    limit = [result for result in results if (result.case.name, result.case.peer) == noop]
    if not limit or not _median(limit, lambda one: one.rate):
        return "the limit of the rates was not measured"
    most = _median(limit, lambda one: one.rate)
    near = [
        f"{case.peer} {_median(mine, lambda one: one.rate) / most:.0%}"
        for case, mine in _group_by_case(results)
        if case.name == work and case.peer != noop[1]
    ]
    server = _median(limit, lambda one: one.others.get("kube-apiserver", 0.0))
    return (
        f"a scheduler without decisions binds {most:.0f} {work} pods a second; of that: {', '.join(near)}; "
        f"the API server takes {server:.1f} ms of CPU for each pod"
    )


def memory_of_others(results: Sequence[CaseResult]) -> str:
    """Return the most memory that each of the lab's programs held."""
    names = {name for result in results for name in result.held}
    most = {name: max(result.held.get(name, 0) for result in results) for name in sorted(names)}
    return ", ".join(f"{name} {format_bytes(size)}" for name, size in most.items())


def _group_by_case(results: Sequence[CaseResult]) -> list[tuple[Case, list[CaseResult]]]:
    cases = list(dict.fromkeys(result.case for result in results))
    return [(case, [result for result in results if result.case == case]) for case in cases]


def _median(results: Sequence[CaseResult], what: Callable[[CaseResult], float]) -> float:
    return statistics.median(what(result) for result in results)


def _medians(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return statistics.median(low for low, _ in pairs), statistics.median(high for _, high in pairs)


def _range(values: Sequence[float], form: str) -> str:
    middle = f"{statistics.median(values):{form}}"
    low, high = f"{min(values):{form}}", f"{max(values):{form}}"
    return middle if low == high else f"{middle} ({low}-{high})"


def _seconds(value: float) -> str:
    if not value:
        return "-"
    return f"{value * 1e3:.2f} ms" if value < 0.1 else f"{value:.2f} s"
