"""`fairlead ps`: the jobs of this machine, what they use, and why they wait."""

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.live.paint import printable
from fairlead.cli.local import cells
from fairlead.cli.output.listing import select_columns, sorted_by
from fairlead.cli.output.show import show, show_list
from fairlead.cli.output.table import Cell, Column, Fit, Tone
from fairlead.cli.output.terminal import Page, Text, show_error, show_page
from fairlead.cli.shell import options as shared
from fairlead.job import LocalJob, LocalState, timestamp
from fairlead.units import pluralize

if TYPE_CHECKING:
    from fairlead.local.status import LocalStatus
    from fairlead.local.status_reader import StatusReader

_HEAD: Final = (
    Column("ID", Fit.KEEP),
    Column("NAME", Fit.MIDDLE),
    Column("USER", Fit.KEEP),
    Column("STATE", Fit.KEEP),
    Column("DEVICE", Fit.MIDDLE),
    Column("GPU-MEM", Fit.KEEP),
    Column("CPU", Fit.KEEP),
    Column("MEMORY", Fit.KEEP),
    Column("TIME", Fit.KEEP),
    Column("WHY", Fit.PROSE),
    Column("KIND", wide=True),
    Column("PRIORITY", wide=True),
    Column("AFTER", wide=True),
    Column("PID", wide=True),
    Column("EXIT", wide=True),
    Column("SUBMITTED", wide=True),
    Column("COUNTED", wide=True),
)
_TONES: Final = {
    LocalState.RUNNING: Tone.GOOD,
    LocalState.QUEUED: Tone.WARN,
    LocalState.FAILED: Tone.BAD,
}
_MOST_ENDED: Final = 200
"""Ended jobs that `-a` lists."""
_RECENT: Final = 3600.0
"""Seconds for which a table without `-a` still counts ended jobs."""


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "ps",
        help="list the jobs of this machine",
        description="List the queued and running jobs of every user of this machine: what they use, where "
        "they stand in the queue and why they wait; then GPU processes of others.",
    )
    command.add_argument(
        "-a", "--all", action="store_true", help="also list your own jobs that have ended, the newest 200"
    )
    command.add_argument("-u", "--user", metavar="USER", help="only the jobs of this user")
    shared.add_list(command, _HEAD)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from fairlead.local.status_reader import open_reader

    reader = open_reader(os.environ)
    try:
        status = reader.read()
    finally:
        reader.close()
    ended, problem = _own_ended(reader, status)
    for line in (*status.warnings, *([problem] if problem else [])):
        show_error(f"fairlead: {line}")
    over = {(job.id, job.submitted) for job in ended}  # some of them since the status was read
    alive = [job for job in (*status.running, *status.queued) if (job.id, job.submitted) not in over]
    jobs = [*(ended if options.all else ()), *alive]
    shown = [job for job in jobs if options.user in (None, job.user, str(job.uid))]
    shown = sorted_by(shown, options.sort_by, _HEAD, lambda job: _row(job, status), LocalJob.to_json)
    if options.output in ("json", "yaml"):
        documents = [replace(job, reason=status.reason(job)).to_json() for job in shown]
        show({"jobs": documents}, options.output)
    elif options.no_headers or options.output == "name":
        rows = [_row(job, status) for job in shown]
        show_list(_HEAD, rows, options.output, headers=False, color=options.color)
    else:
        hidden = () if options.all else ended
        show_page(page(shown, status, options.output, hidden), options.color)
    return 0


def page(
    jobs: Sequence[LocalJob], status: "LocalStatus", output: str = "table", hidden: Sequence[LocalJob] = ()
) -> Page:
    """Return the table of jobs; below it, ended jobs that it does not list, and GPU processes of others."""
    from fairlead.local.status import device_labels

    table = select_columns(_HEAD, [_row(job, status) for job in jobs], output, headers=True)
    labels = device_labels(status.view)
    parts = [Text(cells.foreign_text(process, labels), Tone.WARN) for process in status.foreign]
    recent = [job for job in hidden if job.ended is None or job.ended > time.time() - _RECENT]
    if recent:
        failed = sum(job.state is LocalState.FAILED for job in recent)
        least = "at least " if len(recent) >= _MOST_ENDED else ""
        text = f"{least}{pluralize(len(recent), 'job')} of yours ended in the last hour, {failed} failed"
        parts.insert(0, Text(f"{text}: fairlead ps -a", Tone.WARN if failed else None))
    return Page.of(table if jobs else Text("no jobs"), parts)


def _own_ended(reader: "StatusReader", status: "LocalStatus") -> tuple[tuple[LocalJob, ...], str]:
    """Return own ended jobs in order of arrival, and why they could not be archived."""
    from fairlead.history.store import JobHistory
    from fairlead.local.upkeep import keep_own_jobs

    ledger = reader.ledger
    if ledger is None or not os.path.isdir(ledger.place.private):
        return (), ""
    history = JobHistory.open(ledger.place, os.environ)
    problem = "" if reader.read_only else keep_own_jobs(ledger, history, os.environ)
    own = [job for job in status.jobs if job.uid == ledger.place.uid and job.state.ended]
    ended = {(job.id, job.submitted): job for job in (*own, *history.jobs(_MOST_ENDED))}
    return tuple(sorted(ended.values(), key=lambda job: (job.submitted, job.number))), problem


def _row(job: LocalJob, status: "LocalStatus") -> tuple[str | Cell, ...]:
    from fairlead.local.status import device_labels

    seconds = status.seconds(job)
    return (
        printable(job.id),
        printable(job.name),
        printable(job.user),
        Cell(job.state.value, tone=_TONES.get(job.state)),
        cells.device_of(job, device_labels(status.view)),
        Cell(cells.gpu_memory_of(job), cells.gpu_memory_used(job) or job.requested.gpu_memory),
        Cell(cells.cpu_of(job), job.measured.cpu / 1000 if job.measured else job.requested.cpus),
        Cell(cells.memory_of(job), job.measured.memory if job.measured else job.requested.memory),
        Cell(cells.short_duration(seconds), seconds),
        cells.why(job, status) or cells.NONE,
        job.kind.value,
        Cell(str(job.priority), job.priority),
        ",".join(map(printable, job.after)) or cells.NONE,
        str(job.command.pid) if job.command and job.state is LocalState.RUNNING else cells.NONE,
        cells.NONE if job.exit_code is None else str(job.exit_code),
        timestamp(job.submitted) or cells.NONE,
        printable(job.assumed.source) or cells.NONE,
    )
