"""`fairlead augment work`: the worker beside a store: the application of an augmentation, or of a server."""

import argparse
import os
from typing import TYPE_CHECKING, Any

from fairlead.cli.augment.job_options import add_slots
from fairlead.cli.device.options import say

if TYPE_CHECKING:
    from fairlead.submission.client import StoreDoor


def add(verbs: Any) -> None:
    """Add the verb."""
    command = verbs.add_parser(
        "work",
        help="work on the jobs of a session, beside its store",
        description="Work on all jobs of a session until SIGTERM. It is the command of the application of an "
        "augmentation: `fairlead augment create ... --command 'fairlead augment work'`. The environment says "
        "where the store is; with --local it is a session of this machine. Inputs and results are read and "
        "written on the volume itself. At SIGTERM, programs save themselves and their inputs go to others.",
    )
    command.add_argument("--local", metavar="NAME", dest="session", help="of this session of this machine")
    command.add_argument("--name", metavar="NAME", help="of the worker (default: the host name)")
    command.add_argument("--until-idle", action="store_true", help="end when no job is left")
    add_slots(command)
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from fairlead.cli.device.work import work_until_stopped
    from fairlead.submission.doors import DATA_VARIABLE
    from fairlead.submission.working import WorkSite
    from fairlead.userstate import state_folder

    door, data = _door(options)
    name = options.name or os.uname().nodename
    folder = os.path.join(state_folder(os.environ, "work"), name)
    site = WorkSite("pod", name, folder, options.slots, data or os.environ.get(DATA_VARIABLE, ""))
    say(f"worker {name} of {door.about}, at the store")
    return work_until_stopped(door, site, until_idle=options.until_idle)


def _door(options: argparse.Namespace) -> "tuple[StoreDoor, str]":
    from fairlead.submission.doors import application_door, session_door

    if options.session is None:
        return application_door(os.environ), ""
    from fairlead.augment.place import SessionPlace

    place = SessionPlace.existing(os.environ, options.session)
    return session_door(place.read().url, place.folder, place.name), place.data
