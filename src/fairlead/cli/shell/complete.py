"""Completions for a command line, read from its parser: the answer to a shell's Tab."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from fairlead.compat import StrEnum

_SHORTEST: Final = 2
"""Characters of the shortest option: `-o`."""


class CompletionKind(StrEnum):
    """The kind of completion that a shell offers."""

    WORDS = "words"
    FILES = "files"
    FOLDERS = "folders"


class CompletionWord(NamedTuple):
    """A candidate word and its help text."""

    word: str
    help: str = ""


class Completions(NamedTuple):
    """The candidates at a position: files, folders, or these words."""

    kind: CompletionKind = CompletionKind.WORDS
    candidates: tuple[CompletionWord, ...] = ()


NOTHING: Final = Completions()
Values = Callable[[argparse.Action, argparse.ArgumentParser], Completions]
"""Returns the completions of an argument's value."""


class _ParserState:
    """The state after the words so far: the parser, the option that waits for a value, the arguments used."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser
        self.pending_option: argparse.Action | None = None
        self.used_options: set[int] = set()
        self.positionals = 0
        self.options_ended = False
        """`--` was read: no option follows."""
        self.unknown_command = False
        """A word is not a command: the words after it have no completions."""

    def consume(self, word: str) -> None:
        """Advance by one complete word."""
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
        """Return the positional argument that the next word without a dash fills."""
        places = [each for each in self.parser._actions if not each.option_strings]
        for number, action in enumerate(places):
            if number == self.positionals or action.nargs in ("*", "+", argparse.REMAINDER):
                return action
        return None


def complete(parser: argparse.ArgumentParser, words: Sequence[str], values: Values) -> Completions:
    """Complete the last word; the words before it are complete, without the program's name."""
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
    """Return the completions of a value; of a comma-separated list, those of its last element."""
    if isinstance(action, argparse._SubParsersAction):
        helps = {choices_action.dest: choices_action.help or "" for choices_action in action._choices_actions}
        return Completions(
            CompletionKind.WORDS,
            tuple(CompletionWord(name, helps[name]) for name in action.choices if name in helps),
        )
    if action.choices is not None:
        return Completions(
            CompletionKind.WORDS, tuple(CompletionWord(str(choice)) for choice in action.choices)
        )
    completions = values(action, parser)
    head, comma, _ = current.rpartition(",")
    if comma and completions.kind is CompletionKind.WORDS and "," in str(action.metavar):
        return Completions(
            completions.kind,
            tuple(
                CompletionWord(f"{head},{candidate.word}", candidate.help)
                for candidate in completions.candidates
            ),
        )
    return completions


def _options(state: _ParserState) -> tuple[CompletionWord, ...]:
    """Return the options that are still allowed, each by its longest name."""
    repeatable = (argparse._AppendAction, argparse._ExtendAction)
    return tuple(
        CompletionWord(max(action.option_strings, key=len), _help(action))
        for action in state.parser._actions
        if action.option_strings and (id(action) not in state.used_options or isinstance(action, repeatable))
    )


def _help(action: argparse.Action) -> str:
    fields: Mapping[str, Any] = {**vars(action), "prog": "fairlead"}
    return (action.help or "") % fields


def _with_prefix(answer: Completions, start: str, prefix: str = "") -> Completions:
    kept = (candidate for candidate in answer.candidates if candidate.word.startswith(start))
    return Completions(answer.kind, tuple(CompletionWord(f"{prefix}{each.word}", each.help) for each in kept))
