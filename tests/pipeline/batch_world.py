"""A stage with batches in simulated time: frames at a rate, an edge that holds some, calls with a cost."""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from fairlead.pipeline.work.batch import Batcher
from fairlead.pipeline.work.batch_size import BatchSizer
from fairlead.units import Seconds

Cost = Callable[[int, float], float]
"""The seconds of a call with so many frames that begins at a time."""


@dataclass(frozen=True)
class Feed:
    """The frames that a source makes, and the edge before the stage."""

    rate: float
    depth: int = 8
    drops: bool = False
    """A full edge drops its oldest frame; otherwise the source waits."""

    @property
    def held(self) -> float:
        """How many frames the edge holds before it drops one."""
        return self.depth if self.drops else math.inf


@dataclass(frozen=True)
class Call:
    """One call of the stage."""

    end: float
    frames: int
    latency: float
    """From the first frame in the batch to the results."""


@dataclass
class SimulatedStage:
    """Batches as a worker makes them: it takes the frames that are there; then the batch is due, or waits."""

    cost: Cost
    feed: Feed
    batcher: Batcher[float]
    most: int
    sizer: BatchSizer | None = None
    now: float = 0.0
    calls: list[Call] = field(default_factory=list)
    _queue: deque[float] = field(default_factory=deque)
    _arrived: int = 0
    _next: float = 0.0
    _began: float = 0.0
    _lent: int = 0
    """Frames in a call: they hold slots of the edge."""

    def run(self, until: float) -> "SimulatedStage":
        """Go on to a time."""
        while self.now < until:
            self._arrive()
            while self._queue and not self.batcher.is_full:
                self._began = self._began if len(self.batcher) else self.now
                self.batcher.add(self._queue.popleft(), self.now)
                self._arrive()
            if taken := self.batcher.take(self.now):
                self._call(taken)
            else:
                self.now = min(self._next, self.batcher.due(), until)
        return self

    def throughput(self, since: float) -> float:
        """Return the frames a second of the calls that ended after a time."""
        counted = [call for call in self.calls if call.end > since]
        seconds = counted[-1].end - counted[0].end if len(counted) > 1 else math.inf
        return sum(call.frames for call in counted[1:]) / seconds

    def latency(self, since: float) -> float:
        """Return the longest time between the first frame in a batch and its results, after a time."""
        return max((call.latency for call in self.calls if call.end > since), default=0.0)

    def _arrive(self) -> None:
        room = self.feed.depth + 2 + 2 * self.most - self._lent - len(self.batcher)  # the slots of the edge
        while self._next <= self.now and (self.feed.drops or len(self._queue) < room):
            if self.feed.drops and len(self._queue) >= self.feed.depth:
                self._queue.popleft()
            self._queue.append(self._next)
            self._arrived += 1
            self._next += 1 / self.feed.rate
        self._next = max(self._next, math.nextafter(self.now, math.inf))  # a blocked source goes on from here

    def _call(self, taken: list[float]) -> None:
        seconds = self.cost(len(taken), self.now)
        if self.sizer is not None:
            self.sizer.on_arrivals(self._arrived, self.now)
        self._lent = len(taken)
        self.now += seconds
        self._arrive()
        self._lent = 0
        self.calls.append(Call(self.now, len(taken), self.now - self._began))
        if self.sizer is not None:
            full = len(taken) >= self.batcher.plan.most
            self.sizer.on_call(len(taken), seconds, behind=full and not self.batcher.has_waited)
            self.batcher.follow(self.sizer.plan())


def auto(cost: Cost, feed: Feed, most: int, latency: float) -> SimulatedStage:
    """Return a stage whose batches a sizer plans."""
    sizer = BatchSizer(most, Seconds(latency), feed.held)
    batcher: Batcher[float] = Batcher(1, Seconds(0.0))
    return SimulatedStage(cost, feed, batcher, most, sizer)


def fixed(cost: Cost, feed: Feed, most: int, wait: float) -> SimulatedStage:
    """Return a stage with fixed batches."""
    return SimulatedStage(cost, feed, Batcher(most, Seconds(wait)), most)
