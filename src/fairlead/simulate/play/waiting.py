"""The queue of waiting jobs, and the order in which they are tried."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from random import Random
from typing import Final

from fairlead.simulate.trace.job import Job

RETRY_SECONDS: Final = 60.0
"""Seconds after which kube-scheduler retries a pod without an event that could help it."""


@dataclass(slots=True, eq=False)
class WaitingJob:
    """A job that waits."""

    job: Job
    kind: int | None = None
    """Jobs of one kind fit or do not fit alike; None: a kind of its own."""
    done: float = 0.0
    """Seconds of its work that are done."""
    tried: float = 0.0
    """When it was last tried."""
    attempt: int = 0
    """The number of its last attempt among all attempts: orders jobs that were tried at the same time."""
    over: bool = False
    """It has left the queue."""


Order = Callable[[WaitingJob, float, Random], float]
"""Maps a waiting job and the time to its sort key among jobs of its priority: the lowest goes first."""


def fifo(waiting: WaitingJob, now: float, random: Random) -> float:
    """Try the job that arrived first."""
    return waiting.job.arrival


def kubernetes(waiting: WaitingJob, now: float, random: Random) -> float:
    """Try the job whose last attempt is oldest; a job not tried for a minute has a random place.

    kube-scheduler orders pods by their last attempt, and retries them after a minute. That each pod does so
    at a time of its own is an assumption, chosen because measured waits were as unequal as that. A timer with
    one tick for all pods keeps almost the order of arrival, and gives worst waits that are too short.
    """
    if now - waiting.tried > RETRY_SECONDS:
        waiting.tried = now - random.uniform(0.0, RETRY_SECONDS)
    return waiting.tried


def largest(waiting: WaitingJob, now: float, random: Random) -> float:
    """Try the job that asks for the most accelerator memory first."""
    requests = waiting.job.requests
    return -float(len(requests) * requests[0].demand.count * (requests[0].demand.memory or 0))


def shortest(waiting: WaitingJob, now: float, random: Random) -> float:
    """Try the job with the least remaining work first."""
    return waiting.job.duration - waiting.done


HEAP: Final = "heap"
ORDERS: Final[Mapping[str, Order]] = {
    "fifo": fifo,
    "kubernetes": kubernetes,
    "largest": largest,
    "shortest": shortest,
    HEAP: largest,
}


class JobQueue:
    """Waiting jobs: higher priority first, then by the chosen order, then by last attempt."""

    def __init__(self, order: str, random: Random) -> None:
        self._order, self._random = ORDERS[order], random
        self._heap = order == HEAP
        self._waiting: list[WaitingJob] = []
        self._kinds: Counter[int | None] = Counter()
        self._attempts = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiting: WaitingJob) -> None:
        """Add a job that was just tried."""
        self._record_attempt(waiting)
        self._waiting.append(waiting)
        self._kinds[waiting.kind] += 1

    def kinds(self) -> set[int | None]:
        """Return the kinds of the waiting jobs."""
        return {kind for kind, count in self._kinds.items() if count}

    def in_order(self, now: float, kinds: Collection[int | None]) -> list[WaitingJob]:
        """Return the jobs of some kinds, in the order of attempts."""
        line = [waiting for waiting in self._waiting if waiting.kind in kinds]
        keys = {
            id(waiting): (-waiting.job.priority, self._order(waiting, now, self._random)) for waiting in line
        }
        line.sort(key=lambda waiting: (*keys[id(waiting)], waiting.attempt))
        if not self._heap:
            return line
        return [
            waiting
            for _, equals in groupby(line, lambda waiting: keys[id(waiting)])
            for waiting in _popped(list(equals))
        ]

    def remove(self, waiting: WaitingJob) -> None:
        """Remove a job."""
        waiting.over = True
        self._waiting.remove(waiting)
        self._kinds[waiting.kind] -= 1

    def record_attempts(self, line: Iterable[WaitingJob], now: float) -> None:
        """Record an attempt for those of these jobs that still wait."""
        for waiting in line:
            if not waiting.over:
                waiting.tried = now
                self._record_attempt(waiting)

    def _record_attempt(self, waiting: WaitingJob) -> None:
        self._attempts += 1
        waiting.attempt = self._attempts


def _popped(equals: list[WaitingJob]) -> list[WaitingJob]:
    """Return equal items in the order in which a binary heap yields them.

    A heap moves its last item to the root when it yields the root, and leaves it there among equals. So the
    first item comes first, and then the last, the one before it, and so on. Put back in this order, they have
    another order in the next pass.
    """
    return equals[:1] + equals[:0:-1]
