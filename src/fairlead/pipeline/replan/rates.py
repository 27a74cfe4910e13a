"""What a run measures of its own stages and links: differences of the counters in its status. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

WINDOW: Final = 1.0
"""Seconds from one measurement to the next."""
_HELD_BACK: Final = 0.1
"""The share of time in which a source must wait for the pipeline; with less, the source is what is slow."""
_LIVE_DROPS: Final = ("oldest", "newest", "superseded")
Document = Mapping[str, Any]
Route = tuple[str, str]


@dataclass(frozen=True, slots=True)
class LinkUse:
    """What one link has carried within a window."""

    bytes: float
    seconds: float
    """How long the transport took for them."""
    window: float

    @property
    def rate(self) -> float:
        """Bytes a second while it carried them."""
        return self.bytes / self.seconds if self.seconds > 0 else float("inf")

    @property
    def share(self) -> float:
        """The share of the window in which it was busy."""
        return self.seconds / self.window


@dataclass(frozen=True, slots=True)
class WindowRates:
    """What was measured in one window; a stage or a link without a value was not measured."""

    costs: Mapping[str, float] = field(default_factory=dict)
    """By stage: seconds for one value."""
    links: Mapping[Route, LinkUse] = field(default_factory=dict)
    held_back: bool | None = None
    """Whether the source waits for the pipeline; None: not known."""
    period_s: float | None = None
    """Seconds for each frame of the source."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was measured."""
        return not self.costs and not self.links


class RunRates:
    """Counters of a run, from one window to the next."""

    def __init__(self) -> None:
        self._bases: dict[Any, tuple[float, tuple[float, ...]]] = {}

    def reset(self) -> None:
        """Begin again: stages are on other hosts now."""
        self._bases.clear()

    def measure(self, document: Document, now: float) -> WindowRates:
        """Return what has been measured since the window before.

        What has no new value, such as a stage in a long call, is measured with its next one.
        """
        costs = {}
        for stage in document["stages"]:
            counts = (stage["out" if stage["role"] == "source" else "in"], stage["times"]["process"]["sum"])
            if (change := self._change(stage["name"], counts, now)) is not None:
                costs[stage["name"]] = change[1] / change[0]
        links = {}
        for route, counts in _transfers(document):
            if (change := self._change(route, counts, now)) is not None:
                links[route] = LinkUse(change[0], change[1], change[2])
        source = next(stage for stage in document["stages"] if stage["role"] == "source")
        drops = sum(edge["dropped"].get(reason, 0) for edge in document["edges"] for reason in _LIVE_DROPS)
        sends = sum(stage["times"]["send"]["sum"] for stage in _source_worker(document, source))
        change = self._change(None, (source["out"], sends, drops), now)
        if change is None:
            return WindowRates(costs, links)
        frames, blocked, dropped, seconds = change
        held_back = blocked / seconds >= _HELD_BACK or dropped > 0
        return WindowRates(costs, links, held_back, seconds / frames)

    def _change(self, key: Any, counts: tuple[float, ...], now: float) -> tuple[float, ...] | None:
        """Return by how much counters have grown, and in how many seconds; None: the first has not."""
        since, before = self._bases.get(key, (now, counts))
        if key not in self._bases or counts[0] < before[0]:
            self._bases[key] = now, counts
            return None
        if counts[0] == before[0] or now <= since:
            return None
        self._bases[key] = now, counts
        return *(new - old for new, old in zip(counts, before, strict=True)), now - since


def _source_worker(document: Document, source: Document) -> list[Document]:
    return [stage for stage in document["stages"] if stage["workers"] == source["workers"]]


def _transfers(document: Document) -> Iterator[tuple[Route, tuple[float, float]]]:
    places = [document, *document.get("hosts", {}).values()]
    for place in places:
        for each in place.get("transfers", ()):
            yield (each["from"], each["to"]), (each["bytes"], each["seconds"])
