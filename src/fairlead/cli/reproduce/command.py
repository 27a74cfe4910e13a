"""`fairlead reproduce`: play or measure a published experiment, beside its published figures."""

from types import ModuleType
from typing import Any, Final

from fairlead.cli.reproduce import augment, devices, every, gpu_sharing, pipeline

_EXPERIMENTS: Final[tuple[ModuleType, ...]] = (gpu_sharing, pipeline, augment, devices, every)
"""Modules of this package, each with a function `add`, in the order of the help text."""


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "reproduce",
        help="play a published experiment, beside its published figures",
        description="Play or measure a published experiment, and print its published figures beside.",
    )
    verbs = command.add_subparsers(title="experiments", dest="verb", metavar="EXPERIMENT", required=True)
    for module in _EXPERIMENTS:
        module.add(verbs)
