"""Backfilling without starvation: the first job that lacks room gets a reservation.

Smaller jobs may start before a job that waits for room, but they must not make it wait longer. The first job
of the order that the engine refuses is the *head*. Running jobs are released in the order of their expected
ends until the head fits: the end of the last one is when the head is expected to start. From then on it holds
its place in a copy of the engine's state. A later job starts now if

- it is expected to end before the head starts, or
- it also fits into that copy: it takes nothing that the head needs.

If an end is unknown, the start of the head is unknown, too. Then any job may start before the head until the
head has waited for PATIENCE, and afterwards only one that takes nothing of what it needs. For this, jobs with
unknown ends are released longest running first.

A head that would not fit even if all jobs ended waits for processes outside fairlead. It reserves nothing.
"""

from collections.abc import Sequence
from typing import Final

from fairlead.errors import AllocationRefusedError
from fairlead.job import LocalJob
from fairlead.local.queue.requests import QueuedJob
from fairlead.local.queue.room import FreeRoom
from fairlead.local.queue.state import MachineState
from fairlead.placement import Placement
from fairlead.schedule.decision.decide import decide
from fairlead.schedule.score.policies import Policy
from fairlead.units import Seconds

PATIENCE: Final = Seconds(300.0)
"""How long a job lets others pass if nothing says when it can start."""


def expected_end(job: LocalJob, now: float) -> float | None:
    """Return when a running job is expected to end, in seconds since the boot; None: unknown."""
    if job.started_boot is None:
        return None
    lengths = [length for length in (job.assumed.seconds, job.timeout) if length is not None]
    ends = (job.started_boot + length for length in sorted(lengths))
    return next(
        (end for end in ends if end > now), None
    )  # a job past its usual end may run until its timeout


def expected_length(job: LocalJob) -> float | None:
    """Return how long a queued job is expected to run; None: unknown."""
    usual, most = job.assumed.seconds, job.timeout
    return usual if most is None else most if usual is None else min(usual, most)


class Reservation:
    """The place of the head in the future, and what may start before it."""

    def __init__(
        self,
        state: MachineState,
        head: QueuedJob,
        started: Sequence[tuple[LocalJob, Placement]],
        policy: Policy,
    ) -> None:
        self.head = head
        self._now = state.view.at
        self.starts: float | None = None
        """When the head is expected to start, in seconds since the boot; None: unknown."""
        self._later = state.cluster()
        for _, placement in started:
            self._later.bind(placement, strict=False)
        self.holds = self._release_until_it_fits(state, started, policy)
        """Whether there is a place for the head once jobs have ended."""
        self._room = FreeRoom(self._later)

    def _release_until_it_fits(
        self, state: MachineState, started: Sequence[tuple[LocalJob, Placement]], policy: Policy
    ) -> bool:
        for job_id, end in _release_order(state, [job for job, _ in started]):
            self._later.release(job_id)
            request = self.head.request
            if not FreeRoom(self._later).may_fit(self.head):
                continue
            placement = decide(self._later, request, policy, explain=False).placement
            if placement is not None:
                self._later.bind(placement, strict=False)
                self.starts = end
                return True
        return False

    def may_allow(self, later: QueuedJob) -> bool:
        """Return whether a later job may start now, by amounts alone: False is certain."""
        return self._passes(later.job) or self._room.has_amounts(later)

    def allows(self, later: LocalJob, placement: Placement) -> bool:
        """Return whether a later job may start now at this place."""
        if self._passes(later):
            return True
        try:
            self._later.bind(placement)
        except AllocationRefusedError:
            return False
        self._room = FreeRoom(self._later)
        return True

    def _passes(self, later: LocalJob) -> bool:
        """Return whether a job may start before the head, whatever it takes."""
        if not self.holds:
            return True
        if self.starts is None:
            return self._now - self.head.job.submitted_boot < PATIENCE
        length = expected_length(later)
        return length is not None and self._now + length <= self.starts


def _release_order(state: MachineState, started: Sequence[LocalJob]) -> list[tuple[str, float | None]]:
    """Return jobs with their expected ends: known ones first, then the longest running."""
    now = state.view.at
    ends = [(job, expected_end(job, now)) for job in state.running]
    for job in started:
        length = expected_length(job)
        ends.append((job, None if length is None else now + length))
    known = sorted((end, job.number, job.id) for job, end in ends if end is not None)
    unknown = sorted((job.started_boot or now, job.number, job.id) for job, end in ends if end is None)
    return [*((name, end) for end, _, name in known), *((name, None) for *_, name in unknown)]
