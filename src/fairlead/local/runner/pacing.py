"""When a waiting process decides again: at once near the head of the queue, later and less often behind it.

Every waiting process decides for the whole queue. If fifty did so at each event, the machine would compute
plans instead of running jobs. A process far behind lets those before it decide first, and then decides once
for all events that arrived meanwhile, if they may have left room for it.
"""

import select
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from fairlead.job import LocalJob, LocalState

PROMPT: Final = 3
"""Positions that decide at once."""
STEP: Final = 0.03
"""Seconds of delay for each position behind them."""
MOST_DELAY: Final = 2.0
RECHECK: Final = 2.0
"""Seconds after which the first decides without an event: measured use changes, and no record says so."""
MOST_RECHECK: Final = 15.0


class ChangeWatch(Protocol):
    """Waits until a record changes, as LedgerWatch does."""

    def wait(self, timeout: float, fds: Sequence[int] = ()) -> bool:
        """Return whether a record has changed; at the latest after the timeout, or once an fd is readable."""


def decision_delay(position: int) -> float:
    """Return the seconds between an event and the decision of the process at this position."""
    return min(MOST_DELAY, STEP * max(0, position - PROMPT))


def recheck_after(position: int) -> float:
    """Return the seconds after which the process at this position decides without an event."""
    return min(MOST_RECHECK, RECHECK + 0.25 * max(0, position - 1))


def wait_for_turn(watch: ChangeWatch, position: int, fds: Sequence[int] = ()) -> None:
    """Wait until the process at this position should decide again, or one of `fds` is readable."""
    if watch.wait(recheck_after(position), fds) and (delay := decision_delay(position)):
        select.select(list(fds), [], [], delay)
        watch.wait(0.0)  # the decision that follows sees these events, too


class QueueChanges:
    """What happened in the queue since the last decision of one process."""

    def __init__(self) -> None:
        self._running: frozenset[str] = frozenset()
        self._queued: frozenset[str] = frozenset()
        self._position = 1

    def decided(self, jobs: Iterable[LocalJob], position: int) -> None:
        """Note the jobs that a decision was made with, and the position of the own job in it."""
        self._running, self._queued = _ids(jobs, LocalState.RUNNING), _ids(jobs, LocalState.QUEUED)
        self._position = position

    def position(self, jobs: Iterable[LocalJob]) -> int:
        """Return about where the own job is now: those that left the queue were mostly ahead of it."""
        return max(1, self._position - len(self._queued - _ids(jobs, LocalState.QUEUED)))

    def may_have_left_room(self, jobs: Sequence[LocalJob], job: LocalJob) -> bool:
        """Return whether the own job should be decided for again.

        Where no job has left, there is no more room than before. Where one has, the head of the queue
        decides; the others only if fewer jobs have started than have ended, or theirs waited for one of them.
        """
        running, queued = _ids(jobs, LocalState.RUNNING), _ids(jobs, LocalState.QUEUED)
        ended = self._running - running
        left = ended | (self._queued - queued - running)
        if not left:
            return False
        near = self.position(jobs) <= PROMPT
        return near or len(ended) > len(running - self._running) or not left.isdisjoint(job.after)


def _ids(jobs: Iterable[LocalJob], state: LocalState) -> frozenset[str]:
    return frozenset(job.id for job in jobs if job.state is state)
