"""A command as the foreground job of a pseudo-terminal: what it shows, and what keys do."""

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence

from fairlead.cli.live.escapes import LEAVE
from tests.cli.local.small_screen import SmallScreen

CONTROLLED = """
import fcntl, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from fairlead.cli.main import run
run()
"""
"""The program, with its standard input as the terminal that controls its session."""
LIMIT = 60
"""Seconds after which a test gives up."""


class Foreground:
    """A command of fairlead with a terminal of its own."""

    def __init__(
        self,
        words: Sequence[str],
        environ: Mapping[str, str],
        *,
        program: str = CONTROLLED,
        rows: int = 24,
        columns: int = 80,
    ) -> None:
        self.ours, theirs = pty.openpty()
        self.theirs = theirs
        self.resize(rows, columns)
        self.before = termios.tcgetattr(theirs)
        self.written = ""
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        usual = {"TERM": "xterm", "LANG": "en_US.UTF-8", "LC_ALL": ""}
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, **usual, **environ},
            start_new_session=True,
        )

    def resize(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resized(self, rows: int, columns: int) -> None:
        """Give the terminal another size, and wait until the screen is cleared for it."""
        cleared = self.written.count("\x1b[2J")
        self.resize(rows, columns)
        self.read_until(lambda: self.written.count("\x1b[2J") > cleared)

    def read_until(self, found: Callable[[], object]) -> None:
        """Read what is written until something holds."""
        until = time.monotonic() + LIMIT
        while not found():
            assert time.monotonic() < until, self.written
            if select.select([self.ours], [], [], 0.02)[0]:
                try:
                    self.written += self._utf8.decode(os.read(self.ours, 65536))
                except OSError:
                    return

    def screen(self) -> SmallScreen:
        """Return the screen: what was written after it was last cleared."""
        screen = SmallScreen(self.rows, self.columns)
        start = max(self.written.rfind("\x1b[2J"), 0)
        tail = self.written[start:]
        screen.feed(tail[: tail.rfind("\x1b")] if re.search(r"\x1b[^A-Za-z]*\Z", tail) else tail)
        return screen

    def shows(self, text: str) -> None:
        """Wait until the screen shows a text."""
        self.read_until(lambda: any(text in row for row in self.screen().text()))

    def press(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def end(self) -> int:
        """Wait for the end; return the exit code."""
        self.read_until(lambda: self.process.poll() is not None)
        while select.select([self.ours], [], [], 0)[0]:
            self.written += self._utf8.decode(os.read(self.ours, 65536))
        return self.process.wait(LIMIT)

    def is_restored(self) -> bool:
        """Return whether the terminal is as it was."""
        return (
            self.written.endswith(LEAVE.replace("\r\n", "\r\r\n"))
            and termios.tcgetattr(self.theirs) == self.before
        )

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)
