"""`fairlead logs`: print the output of a submitted job."""

import argparse
import os
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.local.find_job import find_ended, find_own, no_such_job
from fairlead.cli.output.terminal import show_error
from fairlead.errors import FairleadError, SettingsError
from fairlead.job import JobKind

if TYPE_CHECKING:
    from fairlead.history.store import JobHistory
    from fairlead.job import LocalJob
    from fairlead.ledger.ledger import JobLedger

_STEP: Final = 0.1
"""Seconds between two looks at the output of a running job."""
_ORIGINS: Final = {
    JobKind.RUN: "a job of `fairlead run`, which printed it",
    JobKind.ADOPTED: "an adopted process",
    JobKind.SUBMIT: "older than what is kept",
}


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "logs",
        help="print the output of a submitted job",
        description="Print the standard output and error of a submitted job, also after its end.",
    )
    command.add_argument(
        "job", metavar="JOB", help="the id or the name of the job; of a name, the newest job"
    )
    command.add_argument(
        "-f", "--follow", action="store_true", help="print what is added, until the job has ended"
    )
    command.add_argument("-n", "--lines", metavar="LINES", help="print the last lines alone")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from fairlead.history.store import JobHistory
    from fairlead.ledger import JobLedger, StateDirectory

    lines = _lines(options.lines)
    place = StateDirectory.open(os.environ)
    ledger = JobLedger(place)
    job, path = _find(options.job, ledger, JobHistory.open(place, os.environ))
    if options.follow:
        _wait_for(path, job, ledger)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        if not job.state.ended and not options.follow:
            show_error(f"fairlead: job {job.id} ({job.name}) is queued: no output yet; -f waits for it")
            return 0
        raise _no_output(job, ledger, options.job) from None
    with closing(os.fdopen(handle, "rb", buffering=0)) as file:
        _print(file.fileno(), lines, options.follow, job, ledger)
    return 0


def _no_output(job: "LocalJob", ledger: "JobLedger", word: str) -> FairleadError:
    """Return why a job that has ended has no output: it never started, or its output was removed."""
    from fairlead.history.store import JobHistory

    if not job.state.ended:  # it ended while its output was awaited
        job = find_ended(word, JobHistory.open(ledger.place, os.environ), ledger.place.uid) or job
    if job.started is None:
        return FairleadError(f"job {job.id} ({job.name}) has no output: it never started", job.reason)
    return FairleadError(
        f"job {job.id} ({job.name}): its output is no longer kept",
        "the outputs of the newest 1000 jobs are kept for 30 days (`fairlead docs submit`)",
    )


def _lines(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal():
        raise SettingsError(f"-n {text}: not a number of lines; write it like 20")
    return int(text)


def _find(word: str, ledger: "JobLedger", history: "JobHistory") -> "tuple[LocalJob, str]":
    """Return a job of this user with the path of its output, from the ledger or from the history."""
    job = find_own(word, ledger.jobs(), ledger.place.uid)
    if job is not None:
        path = ledger.spec(job.id).output
    else:
        job = find_ended(word, history, ledger.place.uid)
        if job is None:
            raise no_such_job(word)
        path = history.output_of(job.id) or ""
    if not path:
        raise FairleadError(
            f"job {job.id} ({job.name}) has no kept output: it is {_ORIGINS[job.kind]}",
            "`fairlead submit` keeps the output of a job",
        )
    return job, path


def _print(handle: int, lines: int | None, follow_it: bool, job: "LocalJob", ledger: "JobLedger") -> None:
    from fairlead.local.output import follow, read_on, seek_last_lines

    seek_last_lines(handle, lines)
    blocks = (
        follow(handle, lambda: _is_over(job, ledger), lambda: time.sleep(_STEP))
        if follow_it
        else read_on(handle)
    )
    for block in blocks:
        sys.stdout.buffer.write(block)
        sys.stdout.buffer.flush()


def _wait_for(path: str, job: "LocalJob", ledger: "JobLedger") -> None:
    """Wait until a queued job has started, or has ended without a start."""
    with ledger.watch() as watch:
        while not os.path.exists(path) and not _is_over(job, ledger):
            watch.wait(1.0)


def _is_over(job: "LocalJob", ledger: "JobLedger") -> bool:
    """Return whether a job has ended: another job may have its id by now."""
    return not any(
        each.id == job.id and each.submitted == job.submitted and not each.state.ended
        for each in ledger.own_jobs()
    )
