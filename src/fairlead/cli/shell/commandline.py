"""The parser of the command line: an unknown command is answered with the nearest known one."""

import argparse
import sys
from collections.abc import Iterable
from typing import Any, NoReturn


class CommandParser(argparse.ArgumentParser):
    """The parser; argparse builds the parsers of commands and verbs from the same class."""

    usage_code = 2
    """The exit code after an error in the arguments."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and end the program."""
        self.print_usage(sys.stderr)
        self.exit(self.usage_code, f"{self.prog}: error: {message}\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the arguments; a command with an exit code of its own refuses unknown ones itself."""
        namespace, unknown = super().parse_known_args(args, namespace)
        if unknown and self.usage_code != CommandParser.usage_code:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return namespace, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # argparse has no public hook for an unknown command, and its own error lists all of them.
        choices = action.choices
        if not isinstance(action, argparse._SubParsersAction) or choices is None or value in choices:
            super()._check_value(action, value)
            return
        near = nearest(str(value), choices)
        advice = f"did you mean {' or '.join(near)}?" if near else f"see {self.prog} --help"
        raise argparse.ArgumentError(None, f"no {action.dest} {str(value)!r}: {advice}")


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """Return the known words that are most like `word`, at most three."""
    from difflib import get_close_matches

    lower, words = word.lower(), list(known)
    longer = [each for each in words if len(lower) > 1 and each.startswith(lower)]
    return list(dict.fromkeys([*get_close_matches(lower, words, 3), *longer]))[:3]
