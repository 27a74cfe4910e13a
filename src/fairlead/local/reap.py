"""Own jobs that have ended: into the history of their user, and out of the machine's list."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fairlead.errors import LedgerError
from fairlead.job import JobKind, LocalJob, LocalState
from fairlead.ledger.liveness import boot_id, is_alive, seconds_since_boot
from fairlead.local.output import prune_outputs

if TYPE_CHECKING:
    from fairlead.history.store import JobHistory
    from fairlead.ledger.ledger import JobLedger

RESTARTED: Final = "machine restarted; queued again"
INTERRUPTED: Final = "its start was interrupted; queued again"
CANCELLED: Final = "cancelled"
_AT_ONCE: Final = 64
"""Jobs that the history keeps in one transaction: each one waits for the disk."""


def archive_ended(
    ledger: "JobLedger", history: "JobHistory", own: "Sequence[LocalJob] | None" = None
) -> None:
    """Move own ended and dead records into the history; it takes the lock, and is idempotent.

    `own` are the jobs of this user where the caller has just read them.

    The history is written without the lock: it may lie on a slow disk, and every user waits for the lock. A
    process that ends between the two reads of its record has written its own end: only a record that is dead
    in both is dead.
    """
    jobs = ledger.own_jobs() if own is None else own
    if not (suspects := {job.id for job in jobs if _is_over(ledger, job)}):
        return
    awaited = {job_id for job in ledger.jobs() if job.state is LocalState.QUEUED for job_id in job.after}
    over = [job for job in ledger.own_jobs() if job.id in suspects - awaited and _is_over(ledger, job)]
    kept = []
    for start in range(0, len(over), _AT_ONCE):
        part = over[start : start + _AT_ONCE]
        if history.add_all(entry for job in part if (entry := _entry(ledger, job)) is not None):
            kept += part  # otherwise their records are all that is left of them
    if kept:
        with ledger.locked():
            present = {job.id: job.submitted for job in ledger.own_jobs()}
            for job in kept:
                if present.get(job.id) == job.submitted:
                    ledger.remove(job.id)
        prune_outputs(ledger.place.private, {job.id for job in ledger.own_jobs()}, time.time())


def requeue_unstarted(ledger: "JobLedger", own: "Sequence[LocalJob] | None" = None) -> None:
    """Queue own submits again that never started, or that waited while the machine restarted."""
    if any(_queued_again(ledger, job) for job in (ledger.own_jobs() if own is None else own)):
        with ledger.locked():
            for job in ledger.own_jobs():
                if again := _queued_again(ledger, job):
                    ledger.write(again)


def with_end(ledger: "JobLedger", job: LocalJob) -> LocalJob:
    """Return an ended job as the history keeps it: a dead one has an end, and may have been cancelled."""
    if job.ended is not None:
        return job
    if ledger.is_cancelled(job.id):
        job = replace(job, state=LocalState.CANCELLED, reason=CANCELLED)
    return replace(job, ended=time.time())


def _entry(ledger: "JobLedger", job: LocalJob) -> "tuple[LocalJob, str, Sequence[str]] | None":
    """Return an ended job with its output and its command; None: another process has archived it."""
    ended = with_end(ledger, job)
    try:
        spec = ledger.spec(job.id)
    except LedgerError:
        gone = all(other.id != job.id for other in ledger.own_jobs())
        return None if gone else (ended, "", ())
    return ended, spec.output, spec.argv


def _is_over(ledger: "JobLedger", job: LocalJob) -> bool:
    """Return whether a job has ended and is left to be archived: a living runner archives its own job."""
    runs = job.runner is not None and is_alive(job.runner, ledger.root)
    return job.state.ended and not runs and not may_start(ledger, job)


def may_start(ledger: "JobLedger", job: LocalJob) -> bool:
    """Return whether a dead submit never started, so that it can still run."""
    return (
        job.kind is JobKind.SUBMIT
        and job.state is LocalState.FAILED
        and job.ended is None
        and not ledger.was_started(job.id)
        and not ledger.is_cancelled(job.id)
    )


def _queued_again(ledger: "JobLedger", job: LocalJob) -> LocalJob | None:
    """Return the record of a submit that must be queued again; None: it need not."""
    here = boot_id(ledger.root)
    waits = job.kind is JobKind.SUBMIT and job.state is LocalState.QUEUED
    if not (waits and job.boot != here) and not may_start(ledger, job):
        return None
    return replace(
        job,
        state=LocalState.QUEUED,
        submitted_boot=job.submitted_boot if job.boot == here else seconds_since_boot(),
        boot=here,
        shares=(),
        runner=None,
        command=None,
        measured=None,
        started=None,
        started_boot=None,
        reason=INTERRUPTED if job.boot == here else RESTARTED,
    )
