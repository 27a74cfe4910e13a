"""The command line's parser: a word that is no command is answered with the nearest one."""

import argparse
from collections.abc import Iterable
from typing import Any


class CommandParser(argparse.ArgumentParser):
    """A parser, as are those of its commands and their verbs: argparse makes them of the same class."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # argparse has no public hook for a wrong command, and its own answer is a list of all of them.
        choices = action.choices
        if not isinstance(action, argparse._SubParsersAction) or choices is None or value in choices:
            super()._check_value(action, value)
            return
        near = nearest(str(value), choices)
        advice = f"did you mean {' or '.join(near)}?" if near else f"see {self.prog} --help"
        raise argparse.ArgumentError(None, f"no {action.dest} {str(value)!r}: {advice}")


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """Return the known words that were probably meant, at most three."""
    from difflib import get_close_matches

    lower, words = word.lower(), list(known)
    longer = [each for each in words if len(lower) > 1 and each.startswith(lower)]
    return list(dict.fromkeys([*get_close_matches(lower, words, 3), *longer]))[:3]
