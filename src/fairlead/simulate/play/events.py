"""The event queue: events in order of time, and at equal times in order of kind."""

import heapq
from enum import IntEnum
from typing import NamedTuple


class EventKind(IntEnum):
    """The kinds of event; at equal times the lower number is first: capacity is freed before it is used."""

    FINISH = 0
    REPAIR = 1
    FAIL = 2
    BEGIN = 3
    GROW = 4
    ARRIVE = 5
    RETRY = 6
    SAMPLE = 7


class SimulationEvent(NamedTuple):
    """One event at one time."""

    at: float
    kind: EventKind
    order: int
    """The number of insertion: the last tie-break, so that the order is deterministic."""
    subject: str
    """A job, or a node."""
    detail: str = ""
    """An accelerator of the node."""
    step: int = 0
    """The step of the job's memory; for an end, the start of the job that it belongs to."""
    version: int = 0
    """An event of an older version is void: the job has a new pace, or has ended."""


class EventQueue:
    """The pending events; the time of the last event taken is the simulation clock."""

    def __init__(self) -> None:
        self._heap: list[SimulationEvent] = []
        self._order = 0
        self.now = 0.0

    def put(
        self, at: float, kind: EventKind, subject: str, detail: str = "", step: int = 0, version: int = 0
    ) -> None:
        """Add an event."""
        self._order += 1
        heapq.heappush(self._heap, SimulationEvent(at, kind, self._order, subject, detail, step, version))

    def take(self) -> SimulationEvent | None:
        """Return the next event, and advance the clock to it."""
        if not self._heap:
            return None
        event = heapq.heappop(self._heap)
        self.now = event.at
        return event

    def next_at(self) -> float | None:
        """Return the time of the next event."""
        return self._heap[0].at if self._heap else None
