"""`fairlead augment`: lend a small device a slice of a server."""

from types import ModuleType
from typing import Any, Final

from fairlead.cli.augment import create, invite, jobs, resize, stored, submit, tier, work

_VERBS: Final[tuple[ModuleType, ...]] = (create, stored, resize, invite, submit, jobs, work, tier)
"""Modules of this package, each with a function `add` that adds its verbs, in the order of the help text."""


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "augment",
        help="lend a small device a slice of a server: storage, an application, accelerator memory",
        description="Lend a small device a slice of a server: storage that the device reaches over WebDAV, "
        "an application beside it, and a share of an accelerator; and run jobs over many files on both.",
    )
    verbs = command.add_subparsers(title="verbs", dest="verb", metavar="VERB", required=True)
    for module in _VERBS:
        module.add(verbs)
