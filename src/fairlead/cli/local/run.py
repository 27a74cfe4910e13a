"""`fairlead run`: run a command when its accelerator, cores and memory are free."""

import argparse
import os
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.local.job_options import JobOptions, add_job_options, job_options_of
from fairlead.errors import FairleadError
from fairlead.units import format_bytes, pluralize

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairlead.cli.local.queue_line import QueueLine
    from fairlead.job import LocalJob
    from fairlead.ledger.ledger import JobLedger
    from fairlead.local.machine import LocalMachine
    from fairlead.local.runner.job_runner import JobRunner
    from fairlead.local.runner.signals import CallerState
    from fairlead.local.runner.wait import WaitEnd

OWN_FAILURE: Final = 125
"""As with env and nohup: every lower code can be the command's."""


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "run",
        help="run a command when its accelerator, cores and memory are free",
        usage="fairlead run [options] [--] COMMAND [ARGUMENT ...]",
        description="Run a command on this machine when what it needs is free, with the accelerator in its "
        "environment. Signals, the terminal, input and output are the command's. What it used is kept: the "
        "next time no size need be given.",
        epilog="Exit codes: the command's; 125 a failure of fairlead, 126 the command is not executable, "
        "127 it is not found, 128+n it was ended by signal n.",
    )
    add_job_options(command)
    command.usage_code = OWN_FAILURE
    command.set_defaults(run=run, failure_code=OWN_FAILURE)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from fairlead.local.runner.command import CommandFailure, find_command
    from fairlead.local.runner.signals import CallerState

    caller = CallerState.read()
    wanted = job_options_of(options)
    from fairlead.cli.local.queue_line import standard_error

    show = standard_error(wanted.quiet)
    found = find_command(wanted.argv, os.environ)
    if isinstance(found, CommandFailure):
        show.error(found.reason)
        return found.exit_code
    return _queue(wanted, caller, show)


def _queue(wanted: JobOptions, caller: "CallerState", show: "QueueLine") -> int:
    from fairlead.host import Host
    from fairlead.ledger.ledger import JobLedger
    from fairlead.ledger.place import StateDirectory
    from fairlead.local.machine import LocalMachine

    ledger = JobLedger(StateDirectory.open(os.environ))
    _start_supervisor(ledger)
    with closing(LocalMachine(Host("/"), ledger.place)) as machine:
        code = _queue_on(machine, ledger, wanted, caller, show)
    _start_supervisor(ledger)
    return code


def _queue_on(
    machine: "LocalMachine", ledger: "JobLedger", wanted: JobOptions, caller: "CallerState", show: "QueueLine"
) -> int:
    from dataclasses import replace

    from fairlead.cli.local.new_job import add_job, new_job, new_spec
    from fairlead.history.store import JobHistory
    from fairlead.job import JobKind
    from fairlead.ledger.liveness import process_ref
    from fairlead.local.enforced import unenforced
    from fairlead.local.machine.environment import environment_notes
    from fairlead.local.runner.job_runner import JobRunner
    from fairlead.local.runner.wait import QueueWait, WaitEnd

    view = machine.view()
    history = JobHistory.open(ledger.place, os.environ, show.line)
    job = new_job(wanted, JobKind.RUN, history, view, machine.inventory)
    job = replace(job, runner=process_ref(os.getpid()))
    spec = new_spec(wanted, os.environ)
    wait = QueueWait(ledger, machine, caller, spec, show)
    answer = wait.start(lambda: add_job(ledger, history, job, spec, wanted), view)
    show.clear()
    if isinstance(answer, WaitEnd):
        return _end_unstarted(ledger, answer, show)
    notes = (
        *environment_notes(view, answer.job, os.environ),
        *_unasked(unenforced(view, answer.job), wanted),
    )
    for line in (*start_lines(answer.job, waited=wait.waited), *notes):
        show.line(line)
    return _follow(JobRunner(ledger, answer, caller, os.environ, show.error, machine), show)


def _unasked(lines: "Iterator[str]", wanted: JobOptions) -> "Iterator[str]":
    """Yield why the size of a job is not enforced, unless its user wants it so."""
    from fairlead.job import Limiter

    if wanted.requested.limiter is not Limiter.NONE:
        yield from lines


def _end_unstarted(ledger: "JobLedger", end: "WaitEnd", show: "QueueLine") -> int:
    from fairlead.local.runner.job_end import JobEnding, end_job

    if not end.cancelled:
        show.error(end.reason)
    if end.job is not None:
        end_job(ledger, end.job, JobEnding(None, end.reason, end.cancelled), os.environ, show.error)
    return end.exit_code


def _follow(runner: "JobRunner", show: "QueueLine") -> int:
    """Execute the command, wait for its end, and return the exit code of `run`."""
    ended = runner.run_until_end()
    if runner.failure is not None:
        show.error(runner.failure.reason)
    elif runner.terminated:
        show.error(ended.reason)
    if runner.lost_device or ended.exit_code is None:
        return OWN_FAILURE
    return ended.exit_code


def _start_supervisor(ledger: "JobLedger") -> None:
    """Start the submits of this user that wait without a supervisor, for instance since a restart."""
    from fairlead.job import JobKind, LocalState

    with suppress(FairleadError, OSError):
        if any(
            job.kind is JobKind.SUBMIT and job.state is not LocalState.RUNNING for job in ledger.own_jobs()
        ):
            from fairlead.local.supervisor import ensure_supervisor

            ensure_supervisor(ledger)


def start_lines(job: "LocalJob", *, waited: bool) -> "Iterator[str]":
    """Yield what the user sees before the command starts: what was assumed and why, and where it runs."""
    assumed = job.assumed
    where = f" on {job.device}" if job.shares else ""
    source = assumed.source
    if source.startswith(("nothing is known", "no memory of")) and job.shares:
        first, end, rest = source.partition(";")
        yield f"{first}, {job.device}{end}{rest}"
    elif "learned" in source or "predicted" in source:
        yield f"assumes {assumed_text(job)}{where}, {source}"
    elif waited:
        yield f"starts{where}"


def assumed_text(job: "LocalJob") -> str:
    """Return what a job that starts counts for and its user has not stated, for people."""
    assumed = job.assumed
    if any(share.whole for share in job.shares):
        return pluralize(len(job.shares), "whole accelerator")
    if job.shares:
        each = f" of each of {len(job.shares)} GPUs" if len(job.shares) > 1 else " of GPU memory"
        return f"{format_bytes(job.shares[0].memory)}{each}"
    cores = "" if assumed.firm_cpu else f"{assumed.cpu / 1000:.1f} cores"
    memory = "" if assumed.firm_memory else f"{format_bytes(assumed.memory)} of RAM"
    return " and ".join(filter(None, (cores, memory)))
