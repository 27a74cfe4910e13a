"""Submitted jobs: checked, recorded, and handed to the supervisor of their user."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from fairlead.cli.local.job_options import JobOptions, default_name, resolve_after
from fairlead.cli.local.new_job import add_job, new_job, new_spec
from fairlead.cli.output.terminal import show_error
from fairlead.errors import FairleadError, SettingsError
from fairlead.history.store import JobHistory
from fairlead.host import Host
from fairlead.job import JobKind, LocalJob
from fairlead.ledger import JobLedger, StateDirectory
from fairlead.ledger.spec import JobSpec
from fairlead.local.machine.machine import LocalMachine
from fairlead.local.output import make_output_folder
from fairlead.local.supervisor import start_supervisor

_AT_ONCE: Final = 8
"""Jobs that are recorded under one hold of the lock: others wait for it, and the first ones may start."""


_Draft = tuple[LocalJob, JobSpec, JobOptions]


class PartlySubmittedError(FairleadError):
    """Some of the jobs of one command are queued, and the others could not be."""

    def __init__(self, jobs: Sequence[LocalJob], wanted: int, problem: FairleadError) -> None:
        super().__init__(
            f"{len(jobs)} of {wanted} jobs are queued, the others are not: {problem}", problem.hint
        )
        self.exit_code = problem.exit_code
        self.jobs = tuple(jobs)
        """Those that are queued."""


def submit_all(submissions: Sequence[JobOptions], environ: Mapping[str, str]) -> list[LocalJob]:
    """Check all jobs, then record them in order, start the supervisor, and return them.

    PartlySubmittedError: some are recorded, and the disk is full, or one names a job that is not there.
    """
    place = StateDirectory.open(environ)
    machine = LocalMachine(Host("/"), place)
    machine.prepare()
    ledger, history = JobLedger(place), JobHistory.open(place, environ)
    folder = make_output_folder(place.private)
    drafts: list[_Draft] = []
    try:
        view = machine.view()
        for options in submissions:
            with _located(options):
                job = new_job(options, JobKind.SUBMIT, history, view, machine.inventory)
            drafts.append((job, new_spec(options, environ, folder), options))
    finally:
        machine.close()
    _check_after(submissions, ledger, history)
    return record_all(drafts, ledger, history, environ)


def _check_after(submissions: Sequence[JobOptions], ledger: JobLedger, history: JobHistory) -> None:
    """Refuse a job that waits for an unknown one before any is recorded; lines may name earlier lines."""
    if not any(options.after for options in submissions):
        return
    jobs, uid, ended = ledger.jobs(), ledger.place.uid, history.jobs()[::-1]
    earlier: set[str] = set()
    for options in submissions:
        with _located(options):
            resolve_after([word for word in options.after if word not in earlier], jobs, uid, lambda: ended)
        earlier.add(options.name or default_name(options.argv))


def record_all(
    drafts: Sequence[_Draft], ledger: JobLedger, history: JobHistory, environ: Mapping[str, str]
) -> list[LocalJob]:
    """Record checked jobs in their order, and start the supervisor; or raise a PartlySubmittedError."""
    show = None if any(options.quiet for _, _, options in drafts) else show_error
    jobs: list[LocalJob] = []
    try:
        for start in range(0, len(drafts), _AT_ONCE):
            with ledger.locked(show):
                for draft in drafts[start : start + _AT_ONCE]:
                    with _located(draft[2]):
                        jobs.append(add_job(ledger, history, *draft))
            _start_supervisor(ledger.place, environ)  # it also archives what has ended
        ledger.flush(jobs)
    except FairleadError as problem:
        if not jobs:
            raise
        _start_supervisor(ledger.place, environ)
        raise PartlySubmittedError(jobs, len(drafts), problem) from problem
    return jobs


def _start_supervisor(place: StateDirectory, environ: Mapping[str, str]) -> None:
    try:
        start_supervisor(place, environ)
    except OSError as error:  # a limit of processes or descriptors; the jobs are queued all the same
        show_error(
            f"fairlead: no supervisor can be started: {error.strerror}: run fairlead ps later to start it"
        )


@contextmanager
def _located(options: JobOptions) -> Iterator[None]:
    """Name the line of a file whose options are refused."""
    try:
        yield
    except SettingsError as error:
        where = f"{options.origin}: " if options.origin else ""
        raise SettingsError(f"{where}{error}", error.hint) from None
