"""Watchdog: notices that a running job holds more of an accelerator than its limit."""

import time
from collections.abc import Callable, Collection
from math import inf
from typing import Final

from fairlead.job import LocalJob
from fairlead.limiter.overuse import PAUSE, Overuse, Reading, find_overuse, unknown_processes

LONGEST_PAUSE: Final = 1.0
"""Seconds between two readings where one takes long, as with drivers that list no processes themselves."""
_PART: Final = 200
"""A reading may take this part of the time until the next one, on the runner's core."""
_FORGET_AFTER: Final = 40
"""Readings after which a process that belonged to another job is looked up again: pids are reused."""

Members = Callable[[], Collection[int]]
"""Reads the processes of the job."""


class Watchdog:
    """Watches one job. A reading that fails, or does not list a process, never counts against the job."""

    def __init__(
        self,
        job: LocalJob,
        read: Callable[[Collection[str], Members], Reading],
        clock: Callable[[], float],
    ) -> None:
        """`read` returns the memory of the processes on accelerators, as `LocalMachine.held` does."""
        self._job, self._read, self._clock = job, read, clock
        self._limit = job.memory_limit
        self._devices = tuple(share.device for share in job.shares if not share.whole)
        self._others: frozenset[int] = frozenset()
        self._readings = 0
        self._members: Members | None = None
        self.due = inf if self._limit is None else clock() + PAUSE
        """When the job is to be checked again."""

    def check(self) -> Overuse | None:
        """Return what the job holds beyond its limit; None: nothing, or unknown.

        A process can end and leave its pid to one of the job between the two questions, so that what exceeds
        the limit is read twice.
        """
        if self._limit is None or self._clock() < self.due:
            return None
        began = time.thread_time()
        try:
            return self._exceeds() and self._exceeds()
        except Exception:  # noqa: BLE001  # a job never ends because it cannot be measured
            return None
        finally:
            spent = time.thread_time() - began
            self.due = self._clock() + min(LONGEST_PAUSE, max(PAUSE, _PART * spent))

    def _exceeds(self) -> Overuse | None:
        assert self._limit is not None
        if self._readings % _FORGET_AFTER == 0:
            self._others = frozenset()
        self._readings += 1
        reading = self._read(self._devices, self._scan)
        unknown = unknown_processes(self._limit, reading, self._others)
        if not unknown:
            return None
        members = self._scan()
        self._others |= unknown - set(members)
        return find_overuse(self._limit, reading, members)

    def _scan(self) -> Collection[int]:
        if self._members is None:
            from fairlead.local.sample.processes import JobProcesses  # noqa: PLC0415  # not before the command runs

            assert self._job.command is not None
            self._members = JobProcesses(self._job.command).scan
        return self._members()
