"""What may stand next on a command line, read from its parser: the answer to a shell's Tab."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from fairlead.compat import StrEnum

_SHORTEST: Final = 2
"""Characters of an option that a value may follow without a space: `-ojson`."""


class CompletionKind(StrEnum):
    """What a shell should offer."""

    WORDS = "words"
    FILES = "files"
    FOLDERS = "folders"


class CompletionWord(NamedTuple):
    """A word that may stand there, and what it means."""

    word: str
    help: str = ""


class Completions(NamedTuple):
    """What may stand there: files, folders, or one of these words."""

    kind: CompletionKind = CompletionKind.WORDS
    candidates: tuple[CompletionWord, ...] = ()


NOTHING: Final = Completions()
Values = Callable[[argparse.Action, argparse.ArgumentParser], Completions]
"""Returns what an argument's value may be."""


class _ParserState:
    """Where the words so far lead: the parser, the option that waits for a value, the arguments taken."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser
        self.pending_option: argparse.Action | None = None
        self.used_options: set[int] = set()
        self.positionals = 0
        self.options_ended = False
        """After `--` there are no options."""
        self.unknown_command = False
        """A word was no command: what follows it cannot be told."""

    def consume(self, word: str) -> None:
        """Take one word that is complete."""
        options = self.parser._option_string_actions
        if word == "--" and not self.options_ended:
            self.options_ended, self.pending_option = True, None
        elif word.startswith("-") and len(word) >= _SHORTEST and not self.options_ended:
            name, joined, _ = word.partition("=")
            action = options.get(name)
            self.pending_option = action if action is not None and not joined and action.nargs != 0 else None
            self.used_options |= {id(action)} if action is not None else set()
        elif self.pending_option is not None:
            self.pending_option = self.pending_option if self.pending_option.nargs in ("*", "+") else None
        else:
            self._argument(word)

    def _argument(self, word: str) -> None:
        action = self.next_argument()
        if isinstance(action, argparse._SubParsersAction):
            below = action.choices.get(word)
            self.unknown_command = below is None
            self.parser, self.used_options, self.positionals = below or self.parser, set(), 0
        else:
            self.positionals += 1

    def next_argument(self) -> argparse.Action | None:
        """Return the argument that a word without a dash would be."""
        places = [each for each in self.parser._actions if not each.option_strings]
        for number, action in enumerate(places):
            if number == self.positionals or action.nargs in ("*", "+", argparse.REMAINDER):
                return action
        return None


def complete(parser: argparse.ArgumentParser, words: Sequence[str], values: Values) -> Completions:
    """Return what the last word may become; the words before it are complete, without the program's name."""
    *before, current = words or [""]
    state = _ParserState(parser)
    for word in before:
        state.consume(word)
    if state.unknown_command:
        return NOTHING
    name, joined, value = current.partition("=")
    option = state.parser._option_string_actions.get(name)
    if joined and option is not None and not state.options_ended:
        return _with_prefix(completions_of(option, state.parser, values, value), value, f"{name}=")
    if state.pending_option is not None and not (
        current.startswith("-") and state.pending_option.nargs in ("*", "+")
    ):
        return _with_prefix(completions_of(state.pending_option, state.parser, values, current), current)
    if current.startswith("-") and not state.options_ended:
        return _with_prefix(Completions(CompletionKind.WORDS, _options(state)), current)
    action = state.next_argument()
    if action is None:
        return (
            NOTHING
            if state.options_ended
            else _with_prefix(Completions(CompletionKind.WORDS, _options(state)), current)
        )
    return _with_prefix(completions_of(action, state.parser, values, current), current)


def completions_of(
    action: argparse.Action, parser: argparse.ArgumentParser, values: Values, current: str
) -> Completions:
    """Return what a value may be; of a list with commas, what its last part may be."""
    if isinstance(action, argparse._SubParsersAction):
        told = {choices_action.dest: choices_action.help or "" for choices_action in action._choices_actions}
        return Completions(
            CompletionKind.WORDS,
            tuple(CompletionWord(name, told[name]) for name in action.choices if name in told),
        )
    if action.choices is not None:
        return Completions(
            CompletionKind.WORDS, tuple(CompletionWord(str(choice)) for choice in action.choices)
        )
    found = values(action, parser)
    head, comma, _ = current.rpartition(",")
    if comma and found.kind is CompletionKind.WORDS and "," in str(action.metavar):
        return Completions(
            found.kind,
            tuple(
                CompletionWord(f"{head},{candidate.word}", candidate.help) for candidate in found.candidates
            ),
        )
    return found


def _options(state: _ParserState) -> tuple[CompletionWord, ...]:
    """Return the options that may still be given, each by its longest name."""
    again = (argparse._AppendAction, argparse._ExtendAction)
    return tuple(
        CompletionWord(max(action.option_strings, key=len), _help(action))
        for action in state.parser._actions
        if action.option_strings and (id(action) not in state.used_options or isinstance(action, again))
    )


def _help(action: argparse.Action) -> str:
    fields: Mapping[str, Any] = {**vars(action), "prog": "fairlead"}
    return (action.help or "") % fields


def _with_prefix(answer: Completions, start: str, prefix: str = "") -> Completions:
    kept = (candidate for candidate in answer.candidates if candidate.word.startswith(start))
    return Completions(answer.kind, tuple(CompletionWord(f"{prefix}{each.word}", each.help) for each in kept))
