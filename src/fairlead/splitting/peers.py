"""Rules of other systems, for comparison: static splits, guided self-scheduling, factoring, work stealing."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from fairlead.splitting.chunks import ChunkRule, SplitView, TimedChunks
from fairlead.splitting.rules import SplitRules
from fairlead.splitting.worker import SplitWorker

_HIDDEN: Final = 0.1


@dataclass(slots=True)
class StaticShares:
    """Each worker gets its share of all inputs when it asks for the first time, and nothing after."""

    shares: Mapping[str, float]
    """The share of each worker, of a sum of one."""
    copies: bool = False
    _given: dict[str, int] = field(default_factory=dict)
    _total: int = 0
    _claimed: float = 0.0

    def count(self, worker: SplitWorker, view: SplitView) -> int:
        """Return the rest of the worker's share."""
        self._total = self._total or view.left
        if worker.name not in self._given:
            before = math.floor(self._claimed * self._total + 0.5)
            self._claimed = min(1.0, self._claimed + self.shares.get(worker.name, 0.0))
            self._given[worker.name] = math.floor(self._claimed * self._total + 0.5) - before
        count = min(self._given[worker.name], view.pending, 1000)
        self._given[worker.name] -= count
        return count


@dataclass(frozen=True, slots=True)
class Guided:
    """Guided self-scheduling: a worker gets the pending inputs divided by the workers."""

    workers: int
    copies: bool = False

    def count(self, worker: SplitWorker, view: SplitView) -> int:
        """Return the chunk."""
        return 0 if worker.held else math.ceil(view.pending / self.workers)


@dataclass(slots=True)
class Factoring:
    """Factoring: half of the pending inputs in chunks of one size, one for each worker, then again."""

    workers: int
    copies: bool = False
    _chunk: int = 0
    _left: int = 0

    def count(self, worker: SplitWorker, view: SplitView) -> int:
        """Return the chunk."""
        if worker.held:
            return 0
        if not self._left:
            self._chunk, self._left = math.ceil(view.pending / 2 / self.workers), self.workers
        self._left -= 1
        return self._chunk


@dataclass(slots=True)
class Stealing:
    """Work stealing: equal queues; a worker whose queue is empty takes half of the longest one.

    The queues are with the coordinator, so that a steal costs a request, as it does between machines.
    """

    workers: int
    copies: bool = False
    _queues: dict[str, int] = field(default_factory=dict)
    _unclaimed: int = -1

    def count(self, worker: SplitWorker, view: SplitView) -> int:
        """Return the next inputs of the worker's own queue, after a steal if that is empty."""
        if self._unclaimed < 0:
            self._unclaimed = view.left
        if worker.name not in self._queues:
            share = self._unclaimed // max(1, self.workers - len(self._queues))
            self._queues[worker.name] = share
            self._unclaimed -= share
        if not self._queues[worker.name]:
            self._steal(worker.name)
        # A tenth of a second of work, so that a request hides behind it.
        count = min(self._queues[worker.name], max(1, int((worker.rate or 0.0) * _HIDDEN)))
        self._queues[worker.name] -= count
        return count

    def _steal(self, thief: str) -> None:
        victim = max(self._queues, key=lambda name: self._queues[name])
        stolen = math.ceil(self._queues[victim] / 2)
        self._queues[victim] -= stolen
        self._queues[thief] += stolen + (self._unclaimed if not stolen else 0)
        self._unclaimed = self._unclaimed if stolen else 0


PEERS: Final = ("halves", "proportional", "guided", "factoring", "stealing")
RULES: Final = ("adaptive", *PEERS)
"""The rules by name; the first is the split's own."""


def rule_named(
    name: str, rules: SplitRules, shares: Mapping[str, float], own: Callable[[], TimedChunks]
) -> ChunkRule:
    """Return a rule for workers of these names, each with the share that `proportional` gives it."""
    count = max(1, len(shares))
    if name == "halves":
        return StaticShares(dict.fromkeys(shares, 1 / count))
    if name == "proportional":
        total = math.fsum(shares.values()) or 1.0
        return StaticShares({worker: share / total for worker, share in shares.items()})
    if name == "guided":
        return Guided(count)
    if name == "factoring":
        return Factoring(count)
    return Stealing(count) if name == "stealing" else own()
