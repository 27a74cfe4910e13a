"""Choose the size of batches and their wait from measured calls and arrivals.

Pure: the time comes in as an argument. Frames that are there already are taken, up to the smallest batch with
nearly the best throughput; frames that are not there yet are waited for only as far as larger batches are
needed to keep up with those that arrive.
"""

import math
from itertools import takewhile
from typing import Final

from fairlead.pipeline.work.batch import BatchPlan
from fairlead.pipeline.work.call_cost import CallCost
from fairlead.units import Seconds

TOLERANCE: Final = 0.03
"""The part of the best throughput that a smaller batch may lack. With a fixed cost a call, half of this part
would need batches twice as large."""
HEADROOM: Final = 1.1
"""A batch waits for so many frames that the stage could take more than arrive, by this factor less the
tolerance: a stage without idle time never catches up after a pause."""
_RATE_PERIOD: Final = 1.0
"""Seconds over which the rate of arrivals is averaged."""
_PATIENCE: Final = 128
"""Calls before a drift lets the sizes be measured again, which takes some thirty calls with small batches."""
_REFRESH: Final = 1024
"""Calls after which they are measured again without a drift: a size out of use may have become better."""
_ONE_BY_ONE: Final = BatchPlan(1, 1, Seconds(0.0))


class BatchSizer:
    """The batches of one stage: at most `most` frames, and `latency` from the first frame to the results.

    `held` is how many frames the edge holds before it drops some; inf: the stage before waits instead.
    """

    def __init__(self, most: int, latency: Seconds, held: float = math.inf) -> None:
        self._most = most
        self._latency = latency
        self._held = held
        self._cost = CallCost(most)
        self._calls = 0
        """Since the sizes were measured for the last time."""
        self._arrived = 0
        self._seen: float | None = None
        self._frames = 0.0
        self._seconds = 0.0
        """Both fade; their ratio is the rate of arrivals."""
        self._behind = False

    def on_call(self, frames: int, seconds: float, *, behind: bool) -> None:
        """Take the time of one call; `behind`: its batch was full without a wait, and more may be there."""
        self._behind = behind
        self._cost.observe(frames, seconds)
        self._calls += 1
        if self._calls >= _REFRESH or (self._calls >= _PATIENCE and self._cost.has_drifted):
            self._cost = CallCost(self._most)
            self._calls = 0

    def on_arrivals(self, total: int, now: float) -> None:
        """Take how many frames have arrived since the start."""
        if self._seen is not None and now <= self._seen:
            return
        if self._seen is not None:
            passed = now - self._seen
            kept = math.exp(-passed / _RATE_PERIOD)
            self._frames = self._frames * kept + total - self._arrived
            self._seconds = self._seconds * kept + passed
        self._arrived, self._seen = total, now

    @property
    def rate(self) -> float:
        """The frames that arrive in a second."""
        return self._frames / self._seconds if self._seconds else 0.0

    def plan(self) -> BatchPlan:
        """Return when the next batch is processed."""
        times = self._within(self._latency)
        if not times:  # nothing is measured yet, or one frame takes too long by itself
            return _ONE_BY_ONE
        limit = self._cost.limit
        if self._behind:  # what has arrived says nothing about what would: take all that is there
            most = min(_smallest([frames / seconds for frames, seconds in enumerate(times, 1)]), limit)
            return BatchPlan(most, most, Seconds(0.0))
        size = min(self._size(times), limit)
        wait = min((size - 1) / self.rate, self._latency - times[size - 1]) if size > 1 else 0.0
        rates = [frames / seconds for frames, seconds in enumerate(self._within(self._latency - wait), 1)]
        most = max(size, min(_smallest(rates), limit))
        return BatchPlan(size, most, Seconds(wait))

    def _within(self, seconds: float) -> list[float]:
        """Return the seconds of the batches that take no longer."""
        return [*takewhile(lambda each: each <= seconds, self._cost.curve())]

    def _size(self, times: list[float]) -> int:
        """Return how many frames a batch waits for."""
        wanted = HEADROOM * self.rate
        if not wanted:
            return 1
        rates: list[float] = []
        for frames, seconds in enumerate(times, 1):
            lost = max(0.0, wanted * seconds // 1 - self._held)  # while the call runs
            waited = max(0.0, (frames + lost) / wanted - seconds)
            if seconds + waited > self._latency and rates:
                break
            rates.append(frames / (seconds + waited))
        return _smallest(rates)


def _smallest(rates: list[float]) -> int:
    """Return the smallest batch with nearly the best throughput."""
    enough = (1 - TOLERANCE) * max(rates, default=0.0)
    return next((frames for frames, rate in enumerate(rates, 1) if rate >= enough), 1)
