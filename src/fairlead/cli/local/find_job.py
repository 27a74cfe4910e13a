"""The jobs that a command line names, by id or by name: the user's own, and never silently another's."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairlead.errors import FairleadError
from fairlead.job import LocalJob

if TYPE_CHECKING:
    from fairlead.history.store import JobHistory


def find_own(word: str, jobs: Sequence[LocalJob], uid: int) -> LocalJob | None:
    """Return the user's own job of this id, else the newest one of this name; None: there is none.

    Another user's job of this id is refused: a name of another's job is no match at all.
    """
    if by_id := [job for job in jobs if job.id == word]:
        own = [job for job in by_id if job.uid == uid]
        if not own:
            raise not_yours(by_id[0])
        return own[-1]
    named = [job for job in jobs if job.name == word and job.uid == uid]
    return max(named, key=lambda job: job.number) if named else None


def find_ended(word: str, history: "JobHistory", uid: int) -> LocalJob | None:
    """Return the user's own ended job of this id or name: first among the newest, which are read fast."""
    from fairlead.history.store import MOST_JOBS

    return find_own(word, history.jobs(), uid) or find_own(word, history.jobs(MOST_JOBS), uid)


def no_such_job(word: str) -> FairleadError:
    """Return the error for a word that names no job."""
    return FairleadError(f"no job {word}", "`fairlead ps -a` lists the jobs with their ids and names")


def not_yours(job: LocalJob) -> FairleadError:
    """Return the error for a job of another user."""
    return FairleadError(
        f"job {job.id} belongs to {job.user}",
        f"only {job.user} can read its output; {job.user} or root can cancel it",
    )
