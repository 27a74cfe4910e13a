"""Starts that are overdue: a process whose job is planned to start, but which does not start it.

Each process acts only for its own jobs. One that was stopped (Ctrl-Z) or hangs would hold up the queue: every
plan gives its job room that it never takes. After a while the others plan without it; once it goes on, it
decides for itself again.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from fairlead.job import LocalJob, LocalState

PATIENCE: Final = 10.0
"""Seconds for which a job may be planned to start and not start."""


class OverdueStarts:
    """Notices jobs of other processes that are planned to start again and again."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def without(self, jobs: Sequence[LocalJob], own: str, now: float) -> list[LocalJob]:
        """Return the jobs to plan with; `own` is never left out."""
        queued = {job.id for job in jobs if job.state is LocalState.QUEUED}
        self._since = {job_id: at for job_id, at in self._since.items() if job_id in queued}
        return [job for job in jobs if job.id == own or not self._is_overdue(job, now)]

    def note(self, starts: Iterable[str], jobs: Iterable[LocalJob], now: float) -> None:
        """Note the jobs that a plan starts; `jobs` are those that it was made with."""
        planned = set(starts)
        for job in jobs:
            if job.id in planned:
                self._since.setdefault(job.id, now)
            else:
                self._since.pop(job.id, None)

    def _is_overdue(self, job: LocalJob, now: float) -> bool:
        return job.id in self._since and now >= self._since[job.id] + PATIENCE
