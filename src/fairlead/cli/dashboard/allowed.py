"""Actions that a dashboard allows beside reading."""

import argparse
from typing import Final

from fairlead.errors import SettingsError

ACTIONS: Final = ("cancel", "rightsize", "drain")


def add_allow(command: argparse.ArgumentParser) -> None:
    """Add the option."""
    command.add_argument(
        "--allow",
        metavar="LIST",
        default="",
        help="actions, separated by commas: cancel, rightsize, drain (default: none)",
    )


def parse_actions(text: str, known: tuple[str, ...] = ACTIONS) -> tuple[str, ...]:
    """Return the actions of the option."""
    named = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    for word in named:
        if word not in known:
            hint = f"known here: {', '.join(known)}" if known else "leave --allow out"
            raise SettingsError(f"--allow {word}: no such action here", hint)
    return named
