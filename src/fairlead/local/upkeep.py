"""What every command of a user does on its way: own jobs that ended are archived, own submits get started."""

import fcntl
import os
from collections.abc import Mapping

from fairlead.errors import LedgerError
from fairlead.history.store import JobHistory
from fairlead.ledger.ledger import JobLedger
from fairlead.local.mps.start import tend_left_keepers
from fairlead.local.reap import archive_ended, requeue_unstarted
from fairlead.local.runner.confine import remove_abandoned_cgroups
from fairlead.local.supervisor.start import ensure_supervisor


def keep_own_jobs(ledger: JobLedger, history: JobHistory, environ: Mapping[str, str]) -> str:
    """Archive own ended jobs, queue again what never started, start the supervisor of own jobs that wait.

    It returns why something could not be done, in one line. While another process holds the lock it does
    nothing: the holder may be stopped, and the next command can do it as well.
    """
    if not is_lock_free(ledger.place.path):
        return ""
    try:
        requeue_unstarted(ledger)
        archive_ended(ledger, history)
        ensure_supervisor(ledger, environ)
        tend_left_keepers(ledger.place, environ)
        remove_abandoned_cgroups()
    except (LedgerError, OSError) as error:
        return f"your ended jobs are not archived: {error}"
    return ""


def is_lock_free(path: str) -> bool:
    """Return whether no process holds the lock of the state directory at this moment."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
