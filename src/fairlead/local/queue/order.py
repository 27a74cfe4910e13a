"""The order in which queued jobs are considered: priority, then fairness between users, then arrival."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from fairlead.job import LocalJob

ROOT: Final = 0
"""The uid whose priorities count for the jobs of all users."""


def start_order(queued: Iterable[LocalJob], running: Iterable[LocalJob]) -> list[LocalJob]:
    """Return queued jobs in the order in which they may start.

    A priority above 0 orders only its owner's own jobs, unless the owner is root, as with `nice`; a priority
    below 0 gives way to the jobs of all users. Among users, jobs take turns: the rank of a job is the number
    of jobs that its owner runs, plus the number of its owner's queued jobs before it.
    """
    by_user: defaultdict[int, list[LocalJob]] = defaultdict(list)
    for job in queued:
        by_user[job.uid].append(job)
    active = Counter(job.uid for job in running)
    keyed = []
    for uid, jobs in by_user.items():
        jobs.sort(key=_own_order)
        keyed += _ranked(uid, jobs, active[uid])
    keyed.sort()
    return [job for *_, job in keyed]


def _own_order(job: LocalJob) -> tuple[int, int, str]:
    return -job.priority, job.number, job.id


def _ranked(uid: int, jobs: Sequence[LocalJob], active: int) -> list[tuple[int, int, int, str, LocalJob]]:
    """Return the jobs of one user with what orders them among all; ids are unique, so jobs never compare."""
    return [
        (-(job.priority if uid == ROOT else min(job.priority, 0)), rank, job.number, job.id, job)
        for rank, job in enumerate(jobs, active)
    ]
