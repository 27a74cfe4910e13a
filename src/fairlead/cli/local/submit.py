"""`fairlead submit`: queue a command and return."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fairlead.cli.local.job_options import JobOptions, add_job_options, job_options_of
from fairlead.cli.output.show import show
from fairlead.cli.shell import options as shared
from fairlead.errors import MissingPartError, UserError

if TYPE_CHECKING:
    from fairlead.job import LocalJob


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "submit",
        help="queue a command and return",
        usage="%(prog)s [options] -- COMMAND [ARGUMENT ...]\n       %(prog)s [options] --from FILE",
        description="Queue a command and print the id of its job. It starts when what it needs is free and "
        "survives a logout; its output is kept: `fairlead logs JOB` prints it.",
    )
    command.add_argument(
        "--from",
        dest="file",
        metavar="FILE",
        help="submit each line of a file (-: the standard input) as a command of the shell; a line may begin "
        "with options of its own, ended by --",
    )
    shared.add_output(command)
    add_job_options(command, quiet="print nothing but the id and errors")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from importlib.util import find_spec

    if find_spec("numpy") is None:  # its supervisor would end without a word, and the job would wait forever
        raise MissingPartError("submit needs numpy, which is not installed")
    jobs = _submitted(_submissions(options), options)
    _show(jobs, options)
    if options.output == "table" and not options.quiet and sys.stderr is not None and sys.stderr.isatty():
        print(_what_next(jobs), file=sys.stderr)
    return 0


def _submitted(submissions: "Sequence[JobOptions]", options: argparse.Namespace) -> "list[LocalJob]":
    """Queue the jobs while their supervisor starts; print those that are queued if others cannot be."""
    from fairlead.ledger.place import StateDirectory
    from fairlead.local.runner.command import CommandFailure, find_command
    from fairlead.local.supervisor import early_supervisor

    for each in submissions:
        found = find_command(each.argv, os.environ)
        if isinstance(found, CommandFailure):
            raise UserError(found.reason)
    with early_supervisor(StateDirectory.open(os.environ), os.environ):
        from fairlead.cli.local.submission import PartlySubmittedError, submit_all

        try:
            return submit_all(submissions, os.environ)
        except PartlySubmittedError as error:
            _show(error.jobs, options)
            raise


def _submissions(options: argparse.Namespace) -> "Sequence[JobOptions]":
    if options.file is None:
        return [job_options_of(options)]
    from fairlead.cli.local.submit_file import jobs_of_file

    return jobs_of_file(options)


def _show(jobs: "Sequence[LocalJob]", options: argparse.Namespace) -> None:
    if options.output == "table":
        print("\n".join(job.id for job in jobs))
        return
    documents = [job.to_json() for job in jobs]
    show(documents[0] if options.file is None else {"jobs": documents}, options.output)


def _what_next(jobs: "Sequence[LocalJob]") -> str:
    if len(jobs) > 1:
        return f"{len(jobs)} jobs are queued: `fairlead ps` shows them, `fairlead cancel --all` cancels them"
    job = jobs[0]
    return (
        f"job {job.id} ({job.name}) is queued; its size: {job.assumed.source or 'assumed by default'}\n"
        f"`fairlead logs -f {job.id}` follows its output, `fairlead cancel {job.id}` cancels it"
    )
