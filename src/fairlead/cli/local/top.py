"""`fairlead top`: devices, jobs and the queue, live in a terminal."""

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.output.terminal import Screen
from fairlead.cli.shell import options as shared

if TYPE_CHECKING:
    from fairlead.local.status_reader import StatusReader

_PERIOD: Final = "2s"
_FIRST_LOOK: Final = 0.55
"""Seconds between two readings of the cores: their use is a difference."""


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "top",
        help="show devices, jobs and the queue, live",
        description="Show cores, memory and accelerators with the share of each job, the running jobs and "
        "the queue with its reasons, live. Keys sort, filter and cancel; h lists them.",
    )
    command.add_argument(
        "--once", action="store_true", help="print one frame as text; also what a pipe or TERM=dumb gets"
    )
    command.add_argument(
        "-d",
        "--delay",
        metavar="TIME",
        default=_PERIOD,
        help="the time between two readings (default: %(default)s)",
    )
    command.add_argument(
        "--until-idle", action="store_true", help="end when no job waits or runs, of any user"
    )
    shared.add_color(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from fairlead.cli.live.screen import is_live, parse_delay, run_view
    from fairlead.cli.local.live.view import Cancel, JobsView
    from fairlead.local.status_reader import open_reader

    period = parse_delay(options.delay)
    reader = open_reader(os.environ)
    _keep_own_jobs(reader)
    try:
        if options.once or not is_live():
            return _print_once(reader, options.color)
        view = JobsView(reader.read, Cancel(_cancel), until_idle=options.until_idle)
        return run_view(view, period, options.color)
    finally:
        reader.close()


def _keep_own_jobs(reader: "StatusReader") -> None:
    """Do what every command does on its way; what cannot be done now, another command does."""
    from fairlead.history.store import JobHistory
    from fairlead.local.upkeep import keep_own_jobs

    if reader.ledger is not None and not reader.read_only:
        history = JobHistory.open(reader.ledger.place, os.environ)
        keep_own_jobs(reader.ledger, history, os.environ)


def _print_once(reader: "StatusReader", color: str) -> int:
    from fairlead.cli.live.escapes import glyphs_for
    from fairlead.cli.live.screen import print_lines
    from fairlead.cli.local.live.frame import text_frame

    reader.read()
    time.sleep(_FIRST_LOOK)
    screen = Screen.of(sys.stdout, os.environ, color)
    print_lines(text_frame(reader.read(), screen.width, glyphs_for(os.environ)), screen)
    return 0


def _cancel(job_id: str) -> int:
    from fairlead.cli.main import main

    code = main(["cancel", job_id])
    sys.stdout.flush()
    sys.stderr.flush()
    return code
