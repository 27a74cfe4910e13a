"""The keys under which commands are learned: digests, the most specific first.

Records of jobs are public, and a command line may hold what its owner keeps private: a key is a digest, and
the readable name stays in the user's own history.
"""

import hashlib
import os
import re
import shlex
from collections.abc import Sequence
from typing import Final, NamedTuple

from fairlead.host import printable

_PREFIXES: Final = {
    "env": frozenset({"-u", "--unset", "-C", "--chdir", "-S", "--split-string"}),
    "nice": frozenset({"-n", "--adjustment"}),
    "ionice": frozenset({"-c", "--class", "-n", "--classdata"}),
    "chrt": frozenset({"-T", "-P", "-D"}),
    "time": frozenset({"-f", "--format", "-o", "--output"}),
    "timeout": frozenset({"-s", "--signal", "-k", "--kill-after"}),
    "nohup": frozenset(),
    "setsid": frozenset(),
    "stdbuf": frozenset({"-i", "--input", "-o", "--output", "-e", "--error"}),
    "taskset": frozenset(),
    "exec": frozenset(),
}
"""Programs that run another one, with their options that take a value."""
_OPERANDS: Final = {"timeout": 1, "taskset": 1, "chrt": 1}
"""Words of such a program that stand before the command."""
_SHELL: Final = re.compile(r"(?:ba|da|k|z|fi)?sh")
_PLAIN: Final = re.compile(r"(?:[\w@%+:,./= \t-]|'[^']*')+", re.ASCII)
"""The text of one command in which the shell replaces nothing."""
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z_0-9]*=")


class _Interpreter(NamedTuple):
    """A family of programs that run a script, and how they name it."""

    name: re.Pattern[str]
    with_value: frozenset[str]
    """Options that take a value."""
    naming: frozenset[str]
    """Options that name what is run."""
    joins: bool = False
    """Short options can stand in one word."""


_INTERPRETERS: Final = (
    _Interpreter(
        re.compile(r"(?:python|pypy)[0-9.]*"),
        frozenset({"-W", "-X", "--check-hash-based-pycs"}),
        frozenset({"-c", "-m"}),
        joins=True,
    ),
    _Interpreter(
        _SHELL,
        frozenset({"-o", "-O", "--rcfile", "--init-file"}),
        frozenset({"-c"}),
        joins=True,
    ),
    _Interpreter(
        re.compile(r"(?:node|nodejs|bun|deno)"),
        frozenset({"-r", "--require", "--import", "--loader"}),
        frozenset({"-e", "-p", "--eval", "--print"}),
    ),
    _Interpreter(
        re.compile(r"java"),
        frozenset({"-cp", "-classpath", "--class-path", "-p", "--module-path"}),
        frozenset({"-jar", "-m", "--module"}),
    ),
    _Interpreter(
        re.compile(r"(?:perl|ruby|lua[0-9.]*)"), frozenset({"-I", "-r"}), frozenset({"-e", "-E"}), joins=True
    ),
    _Interpreter(re.compile(r"R(?:script)?"), frozenset(), frozenset({"-e"})),
    _Interpreter(re.compile(r"julia"), frozenset({"-t", "-p", "-J"}), frozenset({"-e", "-E"})),
)
_FILES: Final = frozenset({"-jar"})
"""Options that name a file."""
_NAMES: Final = frozenset({"-m", "-jar"})
"""Options with a value that names the command for people."""
_TEXT: Final = 60
"""Characters of a readable name."""
_DIGITS: Final = 20
_PART: Final = 1 << 20
"""Bytes of a model file that are read at its start, and at its end."""


def command_keys(argv: Sequence[str], cwd: str, model: str = "") -> tuple[str, ...]:
    """Return the keys of a command, the most specific first; `model` is the digest of its model file.

    The same words in the same program are one command; the same program with the same script, module or text
    is another, less specific one.
    """
    keys = [_digest("model", model)] if model else []
    if argv:
        words = _without_prefixes(argv)
        program = _program(words[0], cwd)
        script = _script(words, cwd)
        keys.append(_digest("argv", program, *script, *words[1:]))
        keys.append(_digest("program", program, *script))
    return tuple(dict.fromkeys(keys))


def model_digest(path: str) -> str:
    """Return a digest of a model file by its size, its start and its end; empty: it cannot be read.

    A file of weights has gigabytes, and a job must not wait until all of them are read.
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            digest = hashlib.sha256(b"%d " % size + file.read(_PART))
            file.seek(max(_PART, size - _PART))
            digest.update(file.read(_PART))
            return digest.hexdigest()
    except OSError:
        return ""


def command_name(argv: Sequence[str]) -> str:
    """Return the name of a command for people: the script, module or program that it runs."""
    if not argv:
        return ""
    words = _without_prefixes(argv)
    program, script = os.path.basename(words[0]), _script(words, "/")
    option, value = script if len(script) > 1 else ("", *script) if script else ("", program)
    if option and option not in _NAMES:
        return f"{program} {option}"  # the text itself may be long, or private
    return printable(os.path.basename(value))[:_TEXT]


def _digest(kind: str, *words: str) -> str:
    text = "\0".join((kind, *words)).encode("utf-8", "surrogateescape")
    return f"{kind}-{hashlib.sha256(text).hexdigest()[:_DIGITS]}"


def _without_shell(argv: Sequence[str]) -> list[str]:
    """Return the words of a plain command that a shell is given as text; other words as they are."""
    if len(argv) != 3 or argv[1] != "-c" or not _SHELL.fullmatch(os.path.basename(argv[0])):
        return list(argv)
    return ["env", *shlex.split(argv[2])] if _PLAIN.fullmatch(argv[2]) else list(argv)


def _without_prefixes(argv: Sequence[str]) -> Sequence[str]:
    """Return a command without `env`, `nice`, `sh -c` and the like before it: they change no size."""
    words = _without_shell(argv)
    while len(words) > 1:
        name = os.path.basename(words[0])
        if name not in _PREFIXES:
            break
        rest = _operand(words, 1, _PREFIXES[name])
        while name == "env" and rest < len(words) and _ASSIGNMENT.match(words[rest]):
            rest += 1
        rest += _OPERANDS.get(name, 0)
        if rest >= len(words):
            break
        words = words[rest:]
    return words


def _operand(words: Sequence[str], index: int, with_value: frozenset[str]) -> int:
    """Return the index of the first word that is no option, nor the value of one."""
    while index < len(words) and words[index].startswith("-") and len(words[index]) > 1:
        if words[index] == "--":
            return index + 1
        index += 2 if words[index] in with_value else 1
    return index


def _program(word: str, cwd: str) -> str:
    """Return the path of a program that is named by one; a bare name stays, whatever PATH says."""
    return os.path.normpath(os.path.join(cwd, word)) if "/" in word else word


def _script(words: Sequence[str], cwd: str) -> tuple[str, ...]:
    """Return what an interpreter runs: its script's path, or the option that names it with its value."""
    name = os.path.basename(words[0])
    row = next((row for row in _INTERPRETERS if row.name.fullmatch(name)), None)
    if row is None:
        return ()
    index = 1
    while index < len(words) and words[index].startswith("-") and len(words[index]) > 1:
        option, value = _option(words[index], row)
        if option in row.naming:
            value = value or "".join(words[index + 1 : index + 2])
            return (option, os.path.normpath(os.path.join(cwd, value)) if option in _FILES else value)
        index += 2 if option in row.with_value and not value else 1
    if index >= len(words):
        return ()
    return (os.path.normpath(os.path.join(cwd, words[index])),)


def _option(word: str, row: _Interpreter) -> tuple[str, str]:
    """Return the option of a word that takes a value, with the value if the word has it: `-lc`, `-mpkg`."""
    if word in row.naming or word in row.with_value or not row.joins or word.startswith("--"):
        return word, ""
    for place, letter in enumerate(word[1:], 2):
        if f"-{letter}" in row.naming or f"-{letter}" in row.with_value:
            return f"-{letter}", word[place:]
    return word, ""
