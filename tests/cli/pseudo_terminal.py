"""A pseudo-terminal of a chosen width, on which tests run commands in this process."""

import fcntl
import os
import pty
import struct
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from fairlead.cli.main import main

ESCAPE = "\x1b["


@contextmanager
def open_terminal(columns: int) -> Iterator[tuple[int, list[bytes]]]:
    """Open a terminal; yield its descriptor, and a list that holds the output once it is closed."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    shown: list[bytes] = []
    reader = threading.Thread(target=_read, args=(ours, shown))
    reader.start()
    try:
        yield theirs, shown
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)


def _read(source: int, shown: list[bytes]) -> None:
    while True:
        try:
            data = os.read(source, 65536)
        except OSError:  # every writer has closed it
            return
        shown.append(data)


RunOnTerminal = Callable[..., str]


def terminal_runner(monkeypatch: pytest.MonkeyPatch) -> RunOnTerminal:
    """Return a function that runs a command on a terminal and returns its output."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")

    def watch(columns: int, *words: str) -> str:
        with open_terminal(columns) as (theirs, shown), monkeypatch.context() as patch:
            stream = open(os.dup(theirs), "w", encoding="utf-8")  # noqa: SIM115 - closed below
            patch.setattr(sys, "stdout", stream)
            main(words)
            stream.close()
        return b"".join(shown).decode().replace("\r\n", "\n")

    return watch
