"""`fairlead device`: this machine as a small device that a server lends a slice to."""

from typing import Any

from fairlead.cli.device import join, leave, status, sync, transfer, work


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "device",
        help="join a session as a small device: upload, fetch and keep working offline",
        description="Make this machine the device of a session that `fairlead augment` has created: join it, "
        "upload and fetch files. Uploads are queued on this machine and survive a crash or a power "
        "cut; they are sent when the store is reached. It also works on the jobs of the session.",
    )
    verbs = command.add_subparsers(title="verbs", dest="verb", metavar="VERB", required=True)
    for module in (join, status, transfer, sync, work, leave):
        module.add(verbs)
