"""The queue that the README shows is real: its commands print it, but for numbers and the user's name."""

import getpass
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.test_docs import ROOT

PROGRAMS = {
    "train.py": "data = bytearray(300 << 20)\nimport time\ntime.sleep(0.3)\n",
    "prepare.py": "import time\ntime.sleep(120)\n",
}
FEWEST_CORES = 2
LIMIT = 120.0
"""Seconds in which a machine under load measures a job for the first time."""


def session() -> list[tuple[list[str], str]]:
    """Return the commands of the block with the queue, each with what the page shows of its output."""
    blocks = re.findall(r"^```\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    (block,) = [each for each in blocks if "fairlead submit" in each]
    steps = re.findall(r"^\$ \.venv/bin/fairlead (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    return [(shlex.split(command), output) for command, output in steps]


def shape(text: str) -> str:
    """Return a text without what differs between machines: numbers, the user and the widths of columns."""
    text = re.sub(rf"\b(?:root|{re.escape(getpass.getuser())})\b", "user", text)
    return re.sub(r" +", " ", re.sub(r"\d+(?:\.\d+)?", "0", text))


class Terminal:
    """Runs commands of fairlead in a folder with a state directory of its own."""

    def __init__(self, folder: Path) -> None:
        for name, text in PROGRAMS.items():
            (folder / name).write_text(text)
        (folder / "python").symlink_to(sys.executable)
        paths = os.pathsep.join([str(folder), os.environ["PATH"]])
        home = {"HOME": str(folder), "FAIRLEAD_STATE": str(folder / "state")}
        self._folder, self._environment = folder, {**os.environ, **home, "PATH": paths}

    def run(self, words: list[str]) -> str:
        """Return what a command prints."""
        done = subprocess.run(
            [sys.executable, "-m", "fairlead", *words],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
            check=True,
        )
        return done.stdout

    def until(self, words: list[str], expected: str) -> str:
        """Return what a command prints, as soon as it is what is expected or the time is up."""
        end = time.monotonic() + LIMIT
        while shape(shown := self.run(words)) != shape(expected) and time.monotonic() < end:
            time.sleep(0.2)
        return shown


def test_the_queue_of_the_readme_is_real(tmp_path: Path) -> None:
    cores = len(os.sched_getaffinity(0))
    if cores < FEWEST_CORES or len(_accelerators()) > 1:
        pytest.skip("the README shows a machine with two cores and no accelerator")
    terminal, steps = Terminal(tmp_path), session()
    assert [words[0] for words, _ in steps] == ["run", "submit", "submit", "ps"]
    try:
        terminal.run(steps[0][0])  # what is learned from the first run is shown by the second
        for words, expected in steps[:-1]:
            assert shape(terminal.run(words)) == shape(expected)
        words, expected = steps[-1]
        assert shape(terminal.until(words, expected)) == shape(expected)
    finally:
        terminal.run(["cancel", "--all", "--grace", "1s"])


def _accelerators() -> list[str]:
    words = [sys.executable, "-m", "fairlead", "detect", "-o", "name"]
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
