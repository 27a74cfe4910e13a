"""`fairlead device leave`: end the membership; nothing that waits is lost unasked."""

import argparse
import shutil
from typing import Any

from fairlead.cli.device.options import add_name, place_of, warn
from fairlead.units import pluralize


def add(verbs: Any) -> None:
    """Add the verb."""
    command = verbs.add_parser(
        "leave",
        help="leave the session",
        description="Leave the session: the store accepts this device's credential no more, and its state on "
        "this machine is removed. Uploads that wait hold it back.",
    )
    command.add_argument("--discard", action="store_true", help="give up uploads that wait")
    add_name(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Leave."""
    from fairlead.device.queue import UploadQueue
    from fairlead.device.session import SessionClient
    from fairlead.errors import DeviceError, FairleadError

    place = place_of(options)
    with place.sender_lock() as held:
        if not held:
            raise DeviceError(f"the agent of device {place.name} runs", "end it first, then leave")
        with UploadQueue(place) as queue:
            waiting = queue.totals()[0]
        if waiting and not options.discard:
            raise DeviceError(
                f"{pluralize(waiting, 'upload')} wait{'s' if waiting == 1 else ''} in the queue",
                "`fairlead device sync` sends them; --discard gives them up",
            )
        try:
            with SessionClient(place) as client:
                client.leave()
        except FairleadError as error:
            warn(f"the store was not told: {error}; its owner can revoke the credential")
        shutil.rmtree(place.folder)
    print(f"device {place.name} has left its session")
    return 0
