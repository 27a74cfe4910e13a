"""Records of jobs, written through the ledger as the commands write them."""

import os
import time
from pathlib import Path
from typing import Any

from fairlead.job import JobKind, LocalJob, LocalState
from fairlead.ledger import JobLedger, JobSpec, StateDirectory, boot_id, process_ref, seconds_since_boot


def ledger_at(path: Path) -> JobLedger:
    """Return the ledger of a state directory."""
    return JobLedger(StateDirectory.at(str(path)))


def queued(ledger: JobLedger, **fields: Any) -> LocalJob:
    """Record a job of `run` that waits: this process is the one that waits for it."""
    plain = {
        "id": "",
        "number": 0,
        "name": "job",
        "uid": os.geteuid(),
        "user": "",
        "kind": JobKind.RUN,
        "state": LocalState.QUEUED,
        "submitted": time.time(),
        "submitted_boot": seconds_since_boot(),
        "boot": boot_id(),
        "runner": process_ref(os.getpid()),
        "reason": "recorded",
    }
    with ledger.locked():
        return ledger.add(LocalJob(**{**plain, **fields}), JobSpec(("true",), "/"))


def running(ledger: JobLedger, **fields: Any) -> LocalJob:
    """Record a running job: this process is its command."""
    own = process_ref(os.getpid())
    times = {"started": time.time(), "started_boot": seconds_since_boot()}
    return queued(ledger, **{"state": LocalState.RUNNING, "command": own, "reason": "", **times, **fields})


def ended(ledger: JobLedger, code: int, **fields: Any) -> LocalJob:
    """Record a job that has ended with an exit code."""
    state = LocalState.FAILED if code else LocalState.DONE
    return running(
        ledger, **{"state": state, "exit_code": code, "ended": time.time(), "runner": None, **fields}
    )
