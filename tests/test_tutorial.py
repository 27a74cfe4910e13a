"""The tutorial, as a reader types it: every command of its pages runs, and prints what the page shows.

Numbers, units, names of the machine and whatever a page elides with `...` may differ. Where a command
elides a part, such as a token, the reader copies it from the output above; so does the test.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO, NamedTuple

import pytest

from tests.test_docs import ROOT

PAGES = sorted((ROOT / "docs/tutorial").glob("*.md"))
ELSEWHERE = {
    "make demo": "installs into the sources, and measures for a minute",
    'export PATH="$PWD/.venv/bin:$PATH"': "the test has the programs on PATH",
}
"""Commands that the test does not run, each with its reason."""
REPEATED = re.compile(r"fairlead (?:augment show|device get|device ls) ")
"""Commands that look at what a program does at its own pace: a reader is slower than the test."""
LIMIT = 30.0
END = "=== end of the command:"


class Step(NamedTuple):
    """A command, and what the page shows of its output."""

    command: str
    shown: str


def steps(page: str) -> Iterator[Step]:
    """Yield the commands of a page; a command goes on to the end of its here-document."""
    for block in re.findall(r"^```\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        lines = block.splitlines()
        while lines:
            command = lines.pop(0)
            assert command.startswith("$ "), f"output without a command: {command}"
            words, shown = [command[2:]], list[str]()
            if "<<'END'" in command:
                end = lines.index("END")
                words, lines = [*words, *lines[: end + 1]], lines[end + 1 :]
            while lines and not lines[0].startswith("$ "):
                shown.append(lines.pop(0))
            yield Step("\n".join(words), "\n".join(shown))


def pattern(shown: str) -> "re.Pattern[str]":
    """Return what the output of a command must match."""
    lines = []
    for line in plain(shown).splitlines():
        if line == "...":
            lines.append(r"(?:.*\n)*")
            continue
        words = re.escape(line).replace(re.escape("..."), "...")
        words = re.sub(r"\\ \.\.\.$", ".*", words)
        lines.append(re.sub(r"(?:(?!\\ )\S)*\.\.\.", r"\\S+", words) + r"\n")
    return re.compile("".join(lines))


def plain(text: str) -> str:
    """Return a text without what differs between machines and runs."""
    text = re.sub(r"\b(?:aarch64|x86_64)\b(?=, \d+ cores)", "machine", text)
    text = re.sub(r"\d+(?:[.,:]\d+)*", "0", text)
    text = re.sub(r"\b0 ?(?:[KMGT]i)?B\b", "0 B", text)
    text = re.sub(r"\b0 ?(?:us|ms|s)\b", "0 s", text)
    return "\n".join(re.sub(r" +", " ", line).rstrip() for line in text.splitlines())


class Reader:
    """A shell in an empty home, in the folder of the sources."""

    def __init__(self, home: Path) -> None:
        own = {
            name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "FAIRLEAD_"))
        }
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._home = str(home)
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=ROOT,
            env={**own, "HOME": self._home, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.seen = ""
        """All output so far."""

    def run(self, command: str) -> tuple[int, str]:
        """Run a command; return its exit code and its output."""
        stdin, stdout = self._pipes()
        stdin.write(f"{{ {self._copied(command)}\n}} < /dev/null; printf '\\n{END} %d\\n' $?\n")
        stdin.flush()
        lines: list[str] = []
        while (line := stdout.readline()) and not line.startswith(END):
            lines.append(line)
        assert line, f"{command}: the shell has ended: {''.join(lines)}"
        output = "".join(lines).removesuffix("\n").replace(self._home, "/home/you")
        self.seen += output
        return int(line.removeprefix(END)), output

    def follow(self, step: Step) -> None:
        """Run a command of the page until it prints what the page shows."""
        wanted, end = pattern(step.shown), time.monotonic() + LIMIT
        while True:
            code, output = self.run(step.command)
            matches = wanted.fullmatch(f"{plain(output)}\n" if output else "") if step.shown else True
            if (matches and code in ((0, 1) if step.shown else (0,))) or not REPEATED.match(
                f"{step.command} "
            ):
                break
            if time.monotonic() > end:
                break
        assert matches, f"{step.command}\nshows:\n{plain(step.shown)}\nprinted:\n{plain(output)}"
        assert code == 0 or (step.shown and code == 1), f"{step.command}: {code}: {output}"

    def _copied(self, command: str) -> str:
        """Return a command with the parts that it elides as they stand in the newest output."""
        if "..." not in command:
            return re.sub(r"(?<=127\.0\.0\.1:)\d+", self._port, command)
        end = command.rindex("...") + 3
        words = re.sub(
            r"(?:(?!\\ )\S)*\.\.\.", r"\\S+", re.escape(command[:end]).replace(re.escape("..."), "...")
        )
        words = re.sub(r"(?<=127\\\.0\\\.0\\\.1:)\d+", r"\\d+", words)
        found = re.findall(words, self.seen)
        assert found, f"nothing above says {command}"
        return str(found[-1]) + command[end:]

    def _port(self, shown: "re.Match[str]") -> str:
        """Return the port of the session, where the page shows one; other ports are the page's own."""
        known = re.findall(r"https://127\.0\.0\.1:(\d+)", self.seen)
        return known[-1] if known else shown[0]

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        return self._shell.stdin, self._shell.stdout

    def close(self) -> None:
        """End what the page has started, as its reader would."""
        self.run("fairlead augment delete words --local --delete-data > /dev/null 2>&1 || true")
        self.run("kill $(jobs -p) 2> /dev/null || true; wait")
        self._shell.communicate("exit\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_shows_what_its_commands_print(page: Path, tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    try:
        for step in steps(page.read_text(encoding="utf-8")):
            if step.command not in ELSEWHERE:
                reader.follow(step)
    finally:
        reader.close()


def test_there_are_four_short_pages_in_order() -> None:
    assert [page.name[:2] for page in PAGES] == ["1-", "2-", "3-", "4-"]
    for page, following in pairwise(PAGES):
        assert f"]({following.name})" in page.read_text(encoding="utf-8")
    commands = [step.command for page in PAGES for step in steps(page.read_text(encoding="utf-8"))]
    assert set(ELSEWHERE) < set(commands), "needs no exception any more"
    assert max(len(page.read_text(encoding="utf-8").splitlines()) for page in PAGES) <= 140


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("took 1.5 s", "took 20 ms", True),
        ("took 1.5 s", "lasted 20 ms", False),
        ("a\n...\nz", "a\nb\nc\nz", True),
        ("a\n...\nz", "a\nb", False),
        ("key: fli1.pi-6b0a...", "key: fli1.pi-77c0.12.Xy_z", True),
        ("NAME  MEMORY ...", "NAME   MEMORY   WHY", True),
        ("t4  right", "t4  wrong", False),
    ],
)
def test_figures_may_differ_and_words_may_not(shown: str, printed: str, same: bool) -> None:
    assert (pattern(shown).fullmatch(f"{plain(printed)}\n") is not None) is same
