"""Which pages of pods are read next: each when its controller wants it, and not too many at once. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairlead.reconcile import PageReading, PodPage
from fairlead.serve.machine.flow import Effect
from fairlead.serve.operator.kinds import ObjectId

AT_ONCE: Final = 16
"""Pages that are read at the same time."""
_SHORTEST: Final = 1.0
"""Seconds between two readings of a page, at least."""


@dataclass(frozen=True, slots=True)
class ReadPage(Effect):
    """Read a page; the answer is its body and why it could not be read, one of them empty."""

    page: PodPage


@dataclass(slots=True)
class _Asked:
    """A page that a controller asked for."""

    every: float
    due: float
    reading: PageReading | None = None


class PageSchedule:
    """The pages that controllers asked for, by resource."""

    def __init__(self) -> None:
        self._asked: dict[ObjectId, dict[PodPage, _Asked]] = {}
        self._in_flight: set[tuple[ObjectId, PodPage]] = set()

    def ask(self, key: ObjectId, pages: Mapping[PodPage, float], now: float) -> None:
        """Read these pages of a resource from now on, and no others; a new one is read at once."""
        known = self._asked.pop(key, {})
        asked = {}
        for page, seconds in pages.items():
            every = max(_SHORTEST, seconds)
            old = known.get(page, _Asked(every, now))
            asked[page] = _Asked(every, min(old.due, now + every), old.reading)
        if asked:
            self._asked[key] = asked

    def take_due(self, now: float) -> list[tuple[ObjectId, PodPage]]:
        """Return the pages to read now, those that wait longest first."""
        due = [
            (asked.due, key, page)
            for key, pages in self._asked.items()
            for page, asked in pages.items()
            if asked.due <= now and (key, page) not in self._in_flight
        ]
        taken = [(key, page) for _, key, page in sorted(due)[: AT_ONCE - len(self._in_flight)]]
        for key, page in taken:
            asked = self._asked[key][page]
            asked.due = now + asked.every
        self._in_flight.update(taken)
        return taken

    def put(self, key: ObjectId, page: PodPage, reading: PageReading) -> bool:
        """Store what a page answered; return whether its controller still wants it."""
        self._in_flight.discard((key, page))
        asked = self._asked.get(key, {}).get(page)
        if asked is None:
            return False
        asked.reading = reading
        return True

    def readings_of(self, key: ObjectId) -> Mapping[PodPage, PageReading]:
        """Return what the pages of a resource answered last."""
        asked = self._asked.get(key, {})
        return {page: each.reading for page, each in asked.items() if each.reading is not None}

    def clear(self) -> None:
        """Forget what was asked; readings in flight end by themselves."""
        self._asked.clear()
