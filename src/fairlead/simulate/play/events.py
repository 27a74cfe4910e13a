"""What happens next: events in order of time, and at one moment in order of kind."""

import heapq
from enum import IntEnum
from typing import NamedTuple


class EventKind(IntEnum):
    """What happens; at one moment the lower number comes first: room is made before it is asked for."""

    FINISH = 0
    REPAIR = 1
    FAIL = 2
    BEGIN = 3
    GROW = 4
    ARRIVE = 5
    LOOK = 6


class SimulationEvent(NamedTuple):
    """One thing that happens at one moment."""

    at: float
    kind: EventKind
    order: int
    """Of being put on the agenda: the last tie-break, so that nothing is left to chance."""
    subject: str
    """A job, or a node."""
    detail: str = ""
    """An accelerator of the node."""
    step: int = 0
    """Of its memory; for an end, which start of the job is meant."""
    version: int = 0
    """An event of an older version is void: the job has a new pace, or is gone."""


class EventQueue:
    """The events to come; the clock of a simulation is the event taken last."""

    def __init__(self) -> None:
        self._heap: list[SimulationEvent] = []
        self._order = 0
        self.now = 0.0

    def put(
        self, at: float, kind: EventKind, subject: str, detail: str = "", step: int = 0, version: int = 0
    ) -> None:
        """Let something happen later."""
        self._order += 1
        heapq.heappush(self._heap, SimulationEvent(at, kind, self._order, subject, detail, step, version))

    def take(self) -> SimulationEvent | None:
        """Return what happens next, and let the clock be there."""
        if not self._heap:
            return None
        event = heapq.heappop(self._heap)
        self.now = event.at
        return event

    def next_at(self) -> float | None:
        """Return when the next thing happens."""
        return self._heap[0].at if self._heap else None
