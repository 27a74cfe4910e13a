"""Prometheus' text format: families of series, and histograms."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from fairlead.host import printable
from fairlead.inventory import Accelerator

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_LABEL_LIMIT: Final = 200
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_STEPS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5)
BOUNDS: Final = (*_STEPS, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds: the upper bounds of a histogram's buckets."""
Row = tuple[Sequence[str], float]
"""The label values of a series, and its value."""


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """One metric: its name, its help text, and its series."""

    name: str
    kind: str
    text: str
    labels: Sequence[str]
    series: Mapping[tuple[str, ...], float]
    optional: frozenset[str] = frozenset()
    """Labels that a series lacks where their value is empty."""

    def lines(self) -> Iterator[str]:
        """Yield the metric in the text format."""
        yield f"# HELP {self.name} {self.text}\n# TYPE {self.name} {self.kind}\n"
        for values, value in self.series.items():
            pairs = zip(self.labels, values, strict=True)
            inside = ",".join(
                f'{label}="{text.translate(_ESCAPES)}"'
                for label, text in pairs
                if text or label not in self.optional
            )
            yield f"{self.name}{{{inside}}} {value!r}\n" if inside else f"{self.name} {value!r}\n"


@dataclass(slots=True)
class Histogram:
    """A histogram of durations in seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0

    def observe(self, seconds: float) -> None:
        """Add one duration."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def lines(self, name: str, text: str) -> Iterator[str]:
        """Yield the histogram in the text format."""
        yield f"# HELP {name} {text}\n# TYPE {name} histogram\n"
        sums = list(accumulate(self.counts))
        for bound, number in zip((*BOUNDS, float("inf")), sums, strict=True):
            yield f'{name}_bucket{{le="{"+Inf" if bound == float("inf") else repr(bound)}"}} {number}\n'
        yield f"{name}_sum {self.total!r}\n{name}_count {sums[-1]}\n"


@dataclass(frozen=True, slots=True)
class HistogramFamily:
    """A histogram with labels: the counts of its buckets and the sum, for each series."""

    name: str
    text: str
    labels: Sequence[str]
    bounds: Sequence[float]
    """The upper bounds of the buckets; one more bucket has no bound."""
    series: Mapping[tuple[str, ...], tuple[Sequence[int], float]]

    def lines(self) -> Iterator[str]:
        """Yield the histogram in the text format."""
        yield f"# HELP {self.name} {self.text}\n# TYPE {self.name} histogram\n"
        for values, (counts, total) in self.series.items():
            pairs = zip(self.labels, values, strict=True)
            inside = ",".join(f'{label}="{text.translate(_ESCAPES)}"' for label, text in pairs)
            sums = list(accumulate(counts))
            for bound, number in zip((*map(repr, self.bounds), "+Inf"), sums, strict=True):
                yield f'{self.name}_bucket{{{inside},le="{bound}"}} {number}\n'
            yield f"{self.name}_sum{{{inside}}} {total!r}\n{self.name}_count{{{inside}}} {sums[-1]}\n"


def gauge(name: str, text: str, labels: Sequence[str], rows: Iterable[Row]) -> Iterator[MetricFamily]:
    """Yield a gauge, if it has a value."""
    yield from family(name, "gauge", text, labels, rows)


def counter(name: str, text: str, labels: Sequence[str], rows: Iterable[Row]) -> Iterator[MetricFamily]:
    """Yield a counter, if it has a value."""
    yield from family(name, "counter", text, labels, rows)


def family(  # one for each field
    name: str,
    kind: str,
    text: str,
    labels: Sequence[str],
    rows: Iterable[Row],
    optional: frozenset[str] = frozenset(),
) -> Iterator[MetricFamily]:
    """Fill a family, the first of equal series only: Prometheus refuses a page that has two."""
    series: dict[tuple[str, ...], float] = {}
    for values, value in rows:
        series.setdefault(tuple(printable(label)[:_LABEL_LIMIT] for label in values), float(value))
    if series:
        yield MetricFamily(name, kind, text, labels, series, optional)


def id_labels(acc: Accelerator) -> tuple[str, str]:
    """Return the values of the labels `id` and `model`."""
    return acc.id, acc.model or ""
