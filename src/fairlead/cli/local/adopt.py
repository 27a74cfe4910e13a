"""`fairlead adopt`: a process that was not started through fairlead becomes a job."""

import argparse
import os
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.live.paint import printable
from fairlead.cli.local import cells
from fairlead.cli.output.listing import sorted_by
from fairlead.cli.output.show import show, show_list
from fairlead.cli.output.table import Cell, Column, Fit
from fairlead.cli.output.terminal import show_error
from fairlead.cli.shell import options as shared
from fairlead.errors import SettingsError

if TYPE_CHECKING:
    from fairlead.job import LocalJob
    from fairlead.local.status import ForeignProcess, LocalStatus

_HEAD: Final = (
    Column("PID", Fit.KEEP),
    *map(Column, ("NAME", "USER", "DEVICE", "GPU-MEM")),
)


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "adopt",
        help="make a running process a job",
        description="Make a process that was not started through fairlead a job: ps and top show it, the "
        "queue counts what it holds under its name, and --after can wait for it.",
    )
    command.add_argument("pid", metavar="PID", nargs="?", help="the process; yours, or as root any")
    command.add_argument(
        "--list", action="store_true", help="list the processes on accelerators that you can adopt"
    )
    command.add_argument("--name", metavar="TEXT", help="a name (default: the program's)")
    command.add_argument(
        "--gpu-mem",
        metavar="SIZE",
        help="memory of each of its accelerators to book: 4Gi (default: what it holds)",
    )
    shared.add_list(command, _HEAD)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.list == (options.pid is not None):
        raise SettingsError("name one process to adopt, or --list to see which can be")
    return _list(options) if options.list else _adopt(options)


def _list(options: argparse.Namespace) -> int:
    from fairlead.local.status_reader import open_reader

    reader = open_reader(os.environ)
    try:
        status = reader.read()
    finally:
        reader.close()
    for line in status.warnings:
        show_error(f"fairlead: {line}")
    found = [process for process in status.foreign if os.geteuid() in (0, process.uid)]
    found = sorted_by(found, options.sort_by, _HEAD, lambda each: _row(each, status), _document)
    if options.output in ("json", "yaml"):
        show({"processes": [_document(process) for process in found]}, options.output)
        return 0
    rows = [_row(process, status) for process in found]
    empty = "no process of yours on an accelerator is without a job"
    headers = not options.no_headers
    show_list(_HEAD, rows, options.output, headers=headers, empty=empty, color=options.color)
    return 0


def _row(process: "ForeignProcess", status: "LocalStatus") -> tuple[str | Cell, ...]:
    from fairlead.local.status import device_labels

    labels = device_labels(status.view)
    held = process.total
    return (
        str(process.pid),
        process.name or cells.NONE,
        process.user or cells.NONE,
        ",".join(labels.get(device, device) for device in process.memory),
        Cell(cells.NONE if held is None else cells.short_bytes(held), held),
    )


def _document(process: "ForeignProcess") -> dict[str, Any]:
    """Return a process as a document."""
    devices = [{"device": device, "memory_bytes": held} for device, held in process.memory.items()]
    return {"pid": process.pid, "name": process.name, "user": process.user, "devices": devices}


def _adopt(options: argparse.Namespace) -> int:
    from fairlead.cli.local.job_options import parse_name, parse_size
    from fairlead.host import Host
    from fairlead.ledger import JobLedger, StateDirectory
    from fairlead.local.adoption import adopt_process
    from fairlead.local.machine import LocalMachine

    pid = _pid(options.pid)
    name = "" if options.name is None else parse_name(options.name)
    memory = None if options.gpu_mem is None else parse_size("--gpu-mem", options.gpu_mem, "4Gi")
    ledger = JobLedger(StateDirectory.open(os.environ))
    machine = LocalMachine(Host("/"), ledger.place)
    try:
        view = machine.view()
    finally:
        machine.close()
    with ledger.locked(lambda line: show_error(f"fairlead: {line}")):
        job = adopt_process(ledger, view, pid, name, memory)
    if options.output in ("json", "yaml"):
        show({"jobs": [job.to_json()]}, options.output)
    elif options.output == "name":
        print(job.id)
    else:
        print(f"process {pid} is job {job.id} ({printable(job.name)}){_held(job)}")
    return 0


def _held(job: "LocalJob") -> str:
    if not job.shares:
        return ": it uses no accelerator; its cores and RAM count"
    return f": {', '.join(f'{cells.short_bytes(share.memory)} of {share.device}' for share in job.shares)}"


def _pid(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 2**22 + 1:
        raise SettingsError(f"{text}: not a process id; write a number, as fairlead adopt --list shows")
    return int(text)
