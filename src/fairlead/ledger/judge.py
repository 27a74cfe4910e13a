"""What a record means now: a job whose processes are dead has ended, whatever its record says. Pure.

Its owner rewrites the record later; until then every reader comes to the same result by itself.
"""

from dataclasses import replace
from typing import Final, NamedTuple

from fairlead.job import NO_BYTES, JobKind, LocalJob, LocalState
from fairlead.share import DeviceShare

RESTARTED: Final = "machine restarted"
LEFT_QUEUE: Final = "its process ended while it was queued"
RUNNER_KILLED: Final = "its runner was killed; the exit code is unknown"
NEVER_STARTED: Final = "its runner was killed before the command started"
ADOPTED_ENDED: Final = "the adopted process ended; its exit code is unknown"


class JobFacts(NamedTuple):
    """What is known of a job's processes."""

    boot: str
    """The current boot."""
    runner_alive: bool = False
    command_alive: bool = False
    started: bool = True
    """The start token is taken; only the owner of a job can see that it is not."""
    runner_stopped: bool = False
    """The runner lives, and cannot record the end of its command before it is continued."""


def is_settled(job: LocalJob) -> bool:
    """Return whether a record means what it says, whichever processes live."""
    return job.state.ended or (job.state is LocalState.QUEUED and job.kind is JobKind.SUBMIT)


def judge(job: LocalJob, facts: JobFacts) -> LocalJob:
    """Return a job as it is."""
    if is_settled(job):
        return job
    if job.boot != facts.boot:
        return _ended(job, RESTARTED)
    if job.kind is JobKind.ADOPTED:
        alive = facts.command_alive
        return job if alive else replace(job, state=LocalState.DONE, reason=ADOPTED_ENDED)
    if job.state is LocalState.QUEUED:
        return job if facts.runner_alive else _ended(job, LEFT_QUEUE)
    # While only the runner lives, the command has just ended, and its end is being recorded.
    if facts.command_alive or facts.runner_alive:
        return _without_holdings(job) if facts.runner_stopped and not facts.command_alive else job
    return _ended(job, RUNNER_KILLED if facts.started else NEVER_STARTED)


def _ended(job: LocalJob, reason: str) -> LocalJob:
    return replace(job, state=LocalState.FAILED, reason=reason)


def _without_holdings(job: LocalJob) -> LocalJob:
    """Return a job that counts for nothing, on the accelerators that it had."""
    assumed = replace(job.assumed, cpu=0, memory=NO_BYTES, need=None, whole=False)
    shares = tuple(DeviceShare(share.device) for share in job.shares)
    return replace(job, assumed=assumed, shares=shares, measured=None)
