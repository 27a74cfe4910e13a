"""The end of a job: its record, the history of its user, and what was learned; each step can be repeated."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

from fairlead.errors import FairleadError, LedgerError
from fairlead.job import LocalJob, LocalState
from fairlead.ledger.ledger import JobLedger

if TYPE_CHECKING:
    from fairlead.history.outcome import JobOutcome


class LockBusyError(LedgerError):
    """Another process has held the machine's lock for a while; a stopped process holds it on and on."""


def give_up_lock(line: str) -> NoReturn:
    """Raise LockBusyError with the line about the holder; a waiting process must obey signals meanwhile."""
    raise LockBusyError(line)


@dataclass(frozen=True, slots=True)
class JobEnding:
    """How a job ended, and what it used."""

    exit_code: int | None = None
    """None: it did not start, or its exit code is unknown."""
    reason: str = ""
    """Empty: the command ended by itself."""
    cancelled: bool = False
    outcome: "JobOutcome | None" = None


def ended_job(job: LocalJob, ending: JobEnding, now: float) -> LocalJob:
    """Return a job as it is after its end."""
    state = LocalState.CANCELLED if ending.cancelled else LocalState.FAILED
    if ending.exit_code == 0 and not ending.reason and not ending.cancelled:
        state = LocalState.DONE
    return replace(job, state=state, ended=now, exit_code=ending.exit_code, reason=ending.reason)


def end_job(
    ledger: JobLedger,
    job: LocalJob,
    ending: JobEnding,
    environ: Mapping[str, str],
    notify: Callable[[str], None],
) -> LocalJob:
    """Record the end of a job, then archive it; a step that fails is left to a later command of the user."""
    ended = ended_job(job, ending, time.time())
    try:
        ledger.write(ended)
    except (FairleadError, OSError) as error:
        notify(f"the end of job {job.id} cannot be recorded: {error}")
        return ended
    try:
        _archive(ledger, ended, ending.outcome, environ, notify)
    except LockBusyError:
        return ended  # archived; a later command removes the record
    except (FairleadError, OSError) as error:
        notify(f"job {job.id} cannot be added to the history: {error}")
    return ended


def _archive(
    ledger: JobLedger,
    job: LocalJob,
    outcome: "JobOutcome | None",
    environ: Mapping[str, str],
    notify: Callable[[str], None],
) -> None:
    # Not before the command runs: the history is SQLite.
    from fairlead.history.commands import command_keys, command_name  # noqa: PLC0415
    from fairlead.history.store import JobHistory, LearnedFrom  # noqa: PLC0415

    spec = ledger.spec(job.id)
    history = JobHistory.open(ledger.place, environ, notify)
    runs = []
    if outcome is not None:
        keys = command_keys(spec.argv, spec.cwd)
        if job.key and job.key not in keys:  # the key of its model, which has another name than the command
            runs.append(LearnedFrom((job.key,), job.requested.model, outcome))
        runs.append(LearnedFrom(keys, command_name(spec.argv), outcome))
    if not history.add(job, spec.output, spec.argv, runs):
        return  # the record stays, for a later command of the user
    with ledger.locked(give_up_lock):
        waiting = (other for other in ledger.jobs() if other.state is LocalState.QUEUED)
        if not any(job.id in other.after for other in waiting):
            ledger.remove(job.id)  # otherwise it says how it ended until no queued job asks
