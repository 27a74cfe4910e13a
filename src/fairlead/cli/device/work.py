"""`fairlead device work`: the device works on the jobs of its session."""

import argparse
import os
import select
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.device.options import add_name, place_of, say, warn

if TYPE_CHECKING:
    import socket

    from fairlead.submission.client import StoreDoor
    from fairlead.submission.working import WorkSite

_LOOK: Final = 2.0
"""Seconds between two looks for new jobs."""


def add(verbs: Any) -> None:
    """Add the verb."""
    command = verbs.add_parser(
        "work",
        help="work on the jobs of the session",
        description="Work on all jobs of the session until SIGTERM, beside its other devices and its server. "
        "Inputs are fetched before they are needed. Without a link it goes on with what it has, and hands "
        "the results in later. At SIGTERM, programs save themselves and their inputs go to others.",
    )
    command.add_argument(
        "--slots", metavar="N", type=int, default=1, help="inputs at once (default: %(default)s)"
    )
    command.add_argument("--until-idle", action="store_true", help="end when no job is left")
    add_name(command)
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from fairlead.submission.doors import device_door
    from fairlead.submission.working import WorkSite

    place = place_of(options)
    door = device_door(place)
    site = WorkSite("device", place.name, os.path.join(place.folder, "jobs"), options.slots)
    say(f"device {place.name} works on the jobs of {door.about}")
    return work_until_stopped(door, site, until_idle=options.until_idle)


def work_until_stopped(door: "StoreDoor", site: "WorkSite", *, until_idle: bool) -> int:
    """Work on the jobs of a session until a signal, or until none is left."""
    from fairlead.device.place import locked
    from fairlead.errors import JobError
    from fairlead.signals import stop_signals

    os.makedirs(site.folder, mode=0o700, exist_ok=True)
    with stop_signals() as stop, locked(os.path.join(site.folder, ".lock"), exclusive=True) as held:
        if not held:
            raise JobError(
                f"a worker {site.name} runs here already",
                "end it first; --slots lets one work on several inputs at once",
            )
        return _work(door, site, stop, until_idle=until_idle)


def _work(door: "StoreDoor", site: "WorkSite", stop: "socket.socket", *, until_idle: bool) -> int:
    from fairlead.submission.working import JobWorkers

    workers = JobWorkers(door, site, say)
    said = ""
    try:
        while True:
            is_idle = workers.look()
            if workers.problem not in ("", said):
                warn(workers.problem)
            said = workers.problem
            if is_idle and until_idle:
                break
            if select.select([stop], [], [], _LOOK)[0]:
                break
    finally:
        workers.stop()
    say("stopped")
    return 0
