"""`fairlead examples`: the example files of this version."""

import argparse
import sys
from pathlib import Path
from typing import Any

from fairlead.cli.output.show import show_rows
from fairlead.cli.shell import options as shared
from fairlead.cli.shipped.files import copy_files, find_file
from fairlead.units import pluralize


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "examples",
        help="print or copy example files",
        description="List the examples of this version, print one, or copy them into a folder.",
    )
    command.add_argument(
        "name", metavar="NAME", nargs="?", help="the example to print: cluster.yaml, demo/fleet.yaml"
    )
    command.add_argument(
        "--out", metavar="DIR", help="copy the example, or all of them, into this folder instead"
    )
    shared.add_list(command, ("NAME", "ABOUT"))
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from fairlead.shipped import files

    known = files("examples")
    if options.name is not None:
        known = {options.name: find_file("examples", options.name, known)}
    if options.out is not None:
        written = copy_files(known, options.out)
        print(f"wrote {pluralize(len(written), 'file')} to {options.out}", file=sys.stderr)
        return 0
    if options.name is not None:
        print(known[options.name].read_text(encoding="utf-8"), end="")
        return 0
    rows = [(name, about(path)) for name, path in known.items()]
    show_rows(("NAME", "ABOUT"), rows, options)
    return 0


def about(path: Path) -> str:
    """Return the first line of a file, if it is a comment."""
    with path.open(encoding="utf-8") as lines:
        first = lines.readline()
    return first.lstrip("# ").rstrip() if first.startswith("#") else ""
