"""Every command line on a page exists: the parser of the command takes its words."""

import io
import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path

import pytest

from fairlead.cli.main import COMMANDS, build_parser
from tests.test_docs import PAGES, ROOT

LINE = re.compile(r"(?:\$ )?(?:cd \S+ && )?(?:sudo )?(?:\w+=\S+ )*(?:\.venv/bin/)?fairlead ([a-z].*)")
OUTPUT = re.compile(r"top {2}\d+ running")
"""The first line of `fairlead top` begins like a command."""
INCOMPLETE = re.compile(
    r"arguments are required|one of the arguments .* is required$|expected (?:one|at least one) argument$"
)
"""A sentence names a command without its arguments: that is no wrong word."""
SYNTAX = re.compile(r"(?:^|\s)\[|\]\s|\]$|\w\|\w")
"""A line of syntax, not a command; each option in it is held by tests/test_reference.py."""
SHELL = frozenset(("|", "&", "&&", ";", ">", ">>", "2>", "<", "||"))


def commands(text: str) -> Iterator[str]:
    """Yield the commands of fairlead in the blocks and in the sentences of a page."""
    for block in re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if (found := LINE.fullmatch(line.strip())) and not OUTPUT.match(found[1]):
                yield found[1]
    for code in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text):
        if found := LINE.fullmatch(code):
            yield found[1]


def words_of(command: str) -> list[str]:
    """Return the words that fairlead gets of a command line of the shell."""
    words = shlex.split(re.sub(r"\$\([^)]*\)", "output", command), comments=True)
    words = [word for word in words if word != "..."]
    ends = [index for index, word in enumerate(words) if word in SHELL]
    return words[: ends[0]] if ends else words


@cache
def refusal(command: str) -> str:
    """Return why fairlead refuses the words of a command; empty: it takes them."""
    words = words_of(command)
    if words[0] not in COMMANDS:
        return f"no command {words[0]}"
    errors = io.StringIO()
    try:
        with redirect_stderr(errors), redirect_stdout(io.StringIO()):
            build_parser(words[0]).parse_args(words)
    except SystemExit as end:
        why = errors.getvalue().strip().rpartition("\n")[2]
        return "" if not end.code or INCOMPLETE.search(why) else why
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_exists(page: Path) -> None:
    shown = [each for each in commands(page.read_text(encoding="utf-8")) if not SYNTAX.search(each)]
    assert {each: why for each in shown if (why := refusal(each))} == {}


def test_wrong_words_are_found() -> None:
    block = (
        "```\n$ fairlead ps --evrything\nFAIRLEAD_STATE=/tmp/try fairlead run --cpus 2 -- make > out\n```\n"
    )
    page = f"{block}`fairlead psx`, `fairlead logs`"
    assert {each: bool(refusal(each)) for each in commands(page)} == {
        "ps --evrything": True,
        "run --cpus 2 -- make > out": False,
        "psx": True,
        "logs": False,
    }
