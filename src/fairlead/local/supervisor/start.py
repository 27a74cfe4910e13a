"""Start the supervisor of a user where submitted jobs wait and none runs."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from fairlead.job import JobKind, LocalState
from fairlead.local.background.lock import ProcessLock
from fairlead.local.background.spawn import FIRST_PASSED, background_environment, spawn
from fairlead.local.reap import may_start

if TYPE_CHECKING:
    from fairlead.ledger.ledger import JobLedger
    from fairlead.ledger.place import StateDirectory

MODULE: Final = "fairlead.local.supervisor"
LOCK: Final = "supervisor.lock"
LOG: Final = "supervisor.log"


def ensure_supervisor(ledger: "JobLedger", environ: Mapping[str, str] | None = None) -> bool:
    """Start a supervisor if own submits wait or never started, and none runs; call it after a write.

    False: submits wait, and another process supervises them.

    The lock passes from this process to the supervisor, so that no second one starts in between. A supervisor
    that is about to end releases its lock under the ledger's: it has seen every record written before.
    """
    if not any(is_waiting(job.kind, job.state) or may_start(ledger, job) for job in ledger.own_jobs()):
        return True
    return start_supervisor(ledger.place, os.environ if environ is None else environ)


def start_supervisor(
    place: "StateDirectory", environ: Mapping[str, str], submitter: int | None = None
) -> bool:
    """Start a supervisor for submits that wait; False: another process supervises them.

    `submitter` is the reading end of a pipe: while a process has its other end open, submits are still to be
    recorded, and the supervisor does not end.
    """
    lock = ProcessLock.take(os.path.join(place.private, LOCK))
    if lock is None:
        return False
    try:
        log = os.path.join(place.private, LOG)
        environment = background_environment(environ, place.path)
        if submitter is None:
            spawn(MODULE, (), lock, log, environment)
        else:
            words = ("--submitter-handle", str(FIRST_PASSED))
            spawn(MODULE, words, lock, log, environment, (submitter,))
    finally:
        lock.close()
    return True


@contextmanager
def early_supervisor(place: "StateDirectory", environ: Mapping[str, str]) -> Iterator[None]:
    """Start a supervisor for the submits that are recorded inside the block: both are ready sooner.

    It is a help only: whoever has recorded a submit makes sure that a supervisor runs.
    """
    submitter, writer = os.pipe()
    try:
        with suppress(OSError):  # a limit of processes or descriptors
            start_supervisor(place, environ, submitter)
        os.close(submitter)
        yield
    finally:
        os.close(writer)


def is_waiting(kind: JobKind, state: LocalState) -> bool:
    """Return whether a job waits for a supervisor."""
    return kind is JobKind.SUBMIT and state is LocalState.QUEUED
