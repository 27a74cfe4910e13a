"""How many inputs a worker gets when it asks: the rule of the split, and the seam for others."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from fairlead.splitting.bound import SplitBound
from fairlead.splitting.items import BytesAt
from fairlead.splitting.rules import SplitRules
from fairlead.splitting.worker import SplitWorker

_FEW: Final = 4
"""With fewer pending inputs for each worker, whole inputs are counted."""
_STEPS: Final = 30


@dataclass(frozen=True, slots=True)
class SplitView:
    """A job at the moment when a worker asks."""

    workers: Mapping[str, SplitWorker]
    left: int
    """Inputs without a result."""
    pending: int
    """Of these, those that no worker holds."""
    complete: bool
    """Whether no further input comes."""
    now: float
    overdue: int = 0
    """Inputs of workers that seem to have stopped."""
    unstored: int = 0
    """Of the pending inputs, those whose bytes the store does not have."""


class ChunkRule(Protocol):
    """Decides how much a worker gets."""

    @property
    def copies(self) -> bool:
        """Whether an idle worker may copy what another one holds."""

    def count(self, worker: SplitWorker, view: SplitView) -> int:
        """Return how many pending inputs a worker gets now."""


@dataclass(frozen=True, slots=True)
class TimedChunks:
    """Chunks sized in time, one input for an unmeasured worker, and none that would end after all others."""

    rules: SplitRules
    sites: tuple[str, ...] = ()
    """The sites that may work; empty: all."""
    only_if_it_helps: bool = False
    """Leave the slower side out when it adds next to nothing."""
    copies: bool = True

    def count(self, worker: SplitWorker, view: SplitView) -> int:
        """Return how many pending inputs a worker gets now."""
        if not view.pending or self._is_left_out(worker, view):
            return 0
        if worker.rate is None:
            return max(0, worker.slots - len(worker.held))
        wanted = self._chunk(worker, view)
        if not view.complete:
            return wanted
        return min(wanted, self._most_in_time(worker, view))

    def _chunk(self, worker: SplitWorker, view: SplitView) -> int:
        rate = worker.rate or 0.0
        total = sum(each.rate or 0.0 for each in view.workers.values() if each.is_alive(view.now))
        left = view.pending / max(total, rate) if view.complete else math.inf
        seconds = min(self.rules.horizon, max(left * self.rules.fraction, self.rules.shortest))
        return max(worker.slots, 1, int(rate * seconds))

    def _most_in_time(self, worker: SplitWorker, view: SplitView) -> int:
        """Return how many inputs more this worker ends before the others would end all that is left."""
        now, speed = view.now, worker.speed(view.now)
        others = [each for each in view.workers.values() if each is not worker and each.is_alive(now)]
        if view.unstored and worker.has is not BytesAt.STORED:
            # Workers elsewhere wait for these bytes: how fast they are says nothing about the inputs left.
            others = [each for each in others if each.has is not BytesAt.STORED]
        rate = sum(each.speed(now) for each in others)
        if not rate or not speed:
            return view.pending
        held = sum(each.remaining(now) for each in others if each.rate)
        left = view.pending + held + view.overdue
        alone = left / rate
        if view.pending <= _FEW * len(others):
            alone = max(alone, _whole_inputs(view.pending, others, now))
        # It may take what it ends by the time at which all end together, and always what it ends
        # before the others would have done everything without it.
        together = (left + worker.remaining(now)) / (rate + speed)
        fair = math.floor(together * speed - worker.remaining(now) + 0.5)
        least = 1 if worker.ends(1, now) <= alone else 0
        return max(least, fair if worker.ends(fair, now) <= alone else least)

    def _is_left_out(self, worker: SplitWorker, view: SplitView) -> bool:
        if self.sites and worker.site not in self.sites:
            return True
        if not self.only_if_it_helps or worker.rate is None:
            return False
        bound = bound_of(view.workers)
        if bound.helps(self.rules) is not False:
            return False
        return worker.site == ("device" if bound.device < bound.server else "pod")


def _whole_inputs(count: int, workers: Sequence[SplitWorker], now: float) -> float:
    """Return the seconds in which workers, after what they hold, end so many whole inputs more."""
    crew = [(each.speed(now), each.remaining(now)) for each in workers]
    crew = [(speed, held) for speed, held in crew if speed]
    low, high = 0.0, min((held + count) / speed for speed, held in crew)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        done = sum(max(0, math.floor(middle * speed - held + 1e-9)) for speed, held in crew)
        low, high = (low, middle) if done >= count else (middle, high)
    return high


def bound_of(workers: Mapping[str, SplitWorker]) -> SplitBound:
    """Return the bound by the rates that are known."""
    by_site = {"device": 0.0, "pod": 0.0}
    for each in workers.values():
        by_site[each.site] = by_site.get(each.site, 0.0) + (each.rate or 0.0)
    return SplitBound(by_site["device"], by_site["pod"])
