"""Who waits, and who of them is tried first."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from fairlead.simulate.trace.job import Job

RETRY_SECONDS: Final = 60.0
"""Seconds after which kube-scheduler tries a pod again, though nothing has changed for it."""


@dataclass(slots=True, eq=False)
class WaitingJob:
    """A job that waits."""

    job: Job
    kind: int | None = None
    """Jobs of one kind fit or do not fit alike; None: it is like no other."""
    done: float = 0.0
    """Seconds of work that it has behind it."""
    tried: float = 0.0
    """When it was last tried."""
    turn: int = 0
    """Of all tries, which one its last was: tells those apart that were tried at one moment."""
    over: bool = False
    """It waits no more."""


Order = Callable[[WaitingJob, float, Random], float]
"""From one that waits, and the moment, to its place among those of its priority: the lowest goes first."""


def fifo(waiting: WaitingJob, now: float, random: Random) -> float:
    """Who came first is tried first."""
    return waiting.job.arrival


def kubernetes(waiting: WaitingJob, now: float, random: Random) -> float:
    """Who was not tried for longest is tried first; who was not tried for a minute has no fixed place.

    kube-scheduler orders pods by their last try, and tries them again after a minute. That each does so at a
    moment of its own is an assumption, made because measured waits were as unequal as that; a timer with one
    tick for all keeps almost the order of arrival, and gives worst waits that are too short.
    """
    if now - waiting.tried > RETRY_SECONDS:
        waiting.tried = now - random.uniform(0.0, RETRY_SECONDS)
    return waiting.tried


def largest(waiting: WaitingJob, now: float, random: Random) -> float:
    """Who asks for most memory of accelerators is tried first."""
    requests = waiting.job.requests
    return -float(len(requests) * requests[0].demand.count * (requests[0].demand.memory or 0))


def shortest(waiting: WaitingJob, now: float, random: Random) -> float:
    """Who is done soonest is tried first."""
    return waiting.job.duration - waiting.done


ORDERS: Final[Mapping[str, Order]] = {
    "fifo": fifo,
    "kubernetes": kubernetes,
    "largest": largest,
    "shortest": shortest,
}


class JobQueue:
    """Jobs that wait: higher priority first, then by the chosen order, then by turn."""

    def __init__(self, order: str, random: Random) -> None:
        self._order, self._random = ORDERS[order], random
        self._waiting: list[WaitingJob] = []
        self._kinds: Counter[int | None] = Counter()
        self._turns = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def enter(self, waiting: WaitingJob) -> None:
        """Let a job wait that was just tried."""
        self._take_turn(waiting)
        self._waiting.append(waiting)
        self._kinds[waiting.kind] += 1

    def kinds(self) -> set[int | None]:
        """Return the kinds of those that wait."""
        return {kind for kind, count in self._kinds.items() if count}

    def line(self, now: float, kinds: Collection[int | None]) -> list[WaitingJob]:
        """Return those of some kinds, in the order in which they are to be tried."""
        line = [each for each in self._waiting if each.kind in kinds]
        line.sort(key=lambda each: (-each.job.priority, self._order(each, now, self._random), each.turn))
        return line

    def leave(self, waiting: WaitingJob) -> None:
        """Let one wait no more."""
        waiting.over = True
        self._waiting.remove(waiting)
        self._kinds[waiting.kind] -= 1

    def tried(self, line: Iterable[WaitingJob], now: float) -> None:
        """Count a try of those in a line that still wait."""
        for each in line:
            if not each.over:
                each.tried = now
                self._take_turn(each)

    def _take_turn(self, waiting: WaitingJob) -> None:
        self._turns += 1
        waiting.turn = self._turns
