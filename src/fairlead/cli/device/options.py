"""What the verbs of `fairlead device` share."""

import argparse
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairlead.device.place import DevicePlace


def add_name(command: argparse.ArgumentParser) -> None:
    """Add the option that chooses one of several joined devices."""
    command.add_argument("--name", metavar="NAME", help="which device, if several are joined on this machine")


def place_of(options: argparse.Namespace) -> "DevicePlace":
    """Return the place of the device that the options choose."""
    from fairlead.device.place import DevicePlace

    return DevicePlace.joined(os.environ, options.name)


def say(line: str) -> None:
    """Print what happens, at once: the output of an agent is a log."""
    print(line, flush=True)


def warn(line: str) -> None:
    """Print what its user should know, beside the output."""
    print(f"fairlead: {line}", file=sys.stderr, flush=True)
