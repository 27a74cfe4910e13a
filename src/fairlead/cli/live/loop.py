"""The loop of a live screen: draw a frame, wait for a key, a signal or the next reading."""

import signal
import time
from collections.abc import Iterable
from typing import Final, Protocol

from fairlead.cli.live.escapes import KeyDecoder, encode_line
from fairlead.cli.live.paint import Glyphs, StyledLine
from fairlead.cli.live.terminal import ENDS, LiveTerminal, Size
from fairlead.compat import StrEnum

_ESCAPE_WAIT: Final = 0.05
"""Seconds after Esc in which the rest of a key may follow."""
_SOON: Final = 0.5
_LOST: Final = 128 + signal.SIGHUP


class KeyEffect(StrEnum):
    """What the loop does after a key."""

    NONE = "none"
    QUIT = "quit"
    SOON = "soon"
    """Read again before the usual time: the key has changed something."""


class LiveView(Protocol):
    """What is shown, and what keys do to it."""

    def lines(self, size: Size, glyphs: Glyphs) -> Iterable[StyledLine]:
        """Return one frame: at most `size.rows` lines."""
        ...

    def press(self, key: str) -> KeyEffect:
        """Act on a key."""
        ...

    def refresh(self) -> None:
        """Read again."""
        ...

    def is_over(self) -> bool:
        """Return whether there is nothing more to show."""
        ...


class LiveLoop:
    """One live screen until it ends."""

    def __init__(
        self, terminal: LiveTerminal, view: LiveView, period: float, glyphs: Glyphs, *, color: bool
    ) -> None:
        self._terminal = terminal
        self._view = view
        self._period = period
        self._glyphs = glyphs
        self._color = color
        self._decoder = KeyDecoder()
        self._due = time.monotonic() + period

    def run(self) -> int:
        """Show the view until the user quits or a signal ends the program; return the exit code."""
        while True:
            lines = self._view.lines(self._terminal.size(), self._glyphs)
            self._terminal.draw(encode_line(line, self._glyphs, color=self._color) for line in lines)
            code = self._step()
            if code is not None:
                return code

    def _step(self) -> int | None:
        """Wait for what comes next and act on it; return the exit code if it ends the program."""
        wait = _ESCAPE_WAIT if self._decoder.pending else self._due - time.monotonic()
        data, signals = self._terminal.wait(wait)
        for number in signals:
            if number in ENDS:
                return 128 + number
            if number == signal.SIGTSTP:
                self._terminal.suspend()
            elif number == signal.SIGCONT:
                self._terminal.resume()
            elif number == signal.SIGWINCH:
                self._terminal.clear()
        if data is None:
            return _LOST
        keys = self._decoder.feed(data) if data else self._decoder.flush() if self._decoder.pending else []
        for key in keys:
            effect = self._view.press(key)
            if effect is KeyEffect.QUIT:
                return 0
            if effect is KeyEffect.SOON:
                self._due = min(self._due, time.monotonic() + _SOON)
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + self._period
            self._view.refresh()
        return 0 if self._view.is_over() else None
