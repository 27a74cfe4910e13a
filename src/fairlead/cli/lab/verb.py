"""Shared by all verbs of `fairlead lab`: their options, and the folder of labs."""

import argparse
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fairlead.cli.output.table import Column
from fairlead.cli.shell import options as shared

if TYPE_CHECKING:
    from fairlead.lab.run.home import LabHome

Run = Callable[[argparse.Namespace], int]


def add_verb(
    verbs: Any,
    name: str,
    text: str,
    run: Run,
    *,
    output: bool | Sequence[Column] = False,
    named: bool = True,
    all_labs: bool = False,
) -> argparse.ArgumentParser:
    """Add a verb to the command line; a `named` verb takes the name of a lab.

    A verb with an `output` prints a document, or a list with these columns.
    """
    verb: argparse.ArgumentParser = verbs.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}."
    )
    if named:
        _add_name(verb, "all of them" if all_labs else "")
    if not isinstance(output, bool):
        shared.add_list(verb, output)
    elif output:
        shared.add_output(verb)
    verb.set_defaults(run=run)
    return verb


def add_tool(verbs: Any, name: str, text: str, run: Run) -> None:
    """Add a verb that passes its arguments to a program."""
    # A prefix that no user types: every word after the verb belongs to the program, also one like an option.
    verb = verbs.add_parser(
        name,
        help=text,
        usage=f"fairlead lab {name} [--name N] ARGUMENT...",
        prefix_chars="\0",
        add_help=False,
    )
    verb.add_argument("arguments", nargs=argparse.REMAINDER)
    verb.set_defaults(run=run)


def split_name(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """Return the lab that a program's arguments begin with, and the rest of the arguments."""
    name, rest = _default_name(), list(arguments)
    if rest[:1] == ["--name"] and len(rest) > 1:
        name, rest = rest[1], rest[2:]
    elif rest and rest[0].startswith("--name="):
        name, rest = rest[0].partition("=")[2], rest[1:]
    return name, rest[1:] if rest[:1] == ["--"] else rest


def home() -> "LabHome":
    """Return the home of this user's labs."""
    from fairlead.lab.run import home

    return home.default(os.environ)


def _default_name() -> str:
    return os.environ.get("FAIRLEAD_LAB") or "lab"


def _add_name(verb: argparse.ArgumentParser, otherwise: str = "") -> None:
    default = None if otherwise else _default_name()
    verb.add_argument(
        "--name", metavar="N", default=default, help=f"which lab (default: {otherwise or default or 'lab'})"
    )
