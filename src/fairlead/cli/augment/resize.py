"""`fairlead augment resize` and `rotate`: change an augmentation."""

import argparse
from typing import Any

from fairlead.cli.augment import local


def add(verbs: Any) -> None:
    """Add the commands."""
    resize = verbs.add_parser(
        "resize",
        help="give a device more storage, or less",
        description="Change the size of an augmentation, at once, and never to less than what is used.",
    )
    resize.add_argument("name", metavar="NAME", help="the name of the augmentation")
    resize.add_argument("size", metavar="SIZE", help="how much the device may store: 20Gi")
    local.add_local(resize)
    resize.set_defaults(run=_resize)
    rotate = verbs.add_parser(
        "rotate",
        help="replace the token of a store",
        description="Replace the token of an augmentation's store. Devices that have joined rotate their own "
        "credentials at their next report.",
    )
    rotate.add_argument("name", metavar="NAME", help="the name of the augmentation")
    local.add_local(rotate)
    rotate.set_defaults(run=_rotate)


def _resize(options: argparse.Namespace) -> int:
    _check(options)
    return local.run_resize(options)


def _rotate(options: argparse.Namespace) -> int:
    _check(options)
    return local.run_rotate(options)


def _check(options: argparse.Namespace) -> None:
    from fairlead.errors import SettingsError

    if not options.local:
        raise SettingsError(
            f"{options.verb} changes sessions of this machine", "add --local; a cluster's are not changed yet"
        )
