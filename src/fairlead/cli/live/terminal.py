"""LiveTerminal: a terminal in raw use that is restored however the program ends; signals as data."""

import os
import select
import signal
import termios
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Final, NamedTuple

from fairlead.cli.live.escapes import ENTER, LEAVE, repaint


class Size(NamedTuple):
    """The size of a terminal, in cells."""

    rows: int
    columns: int


ENDS: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""Signals that end the program; its exit code is 128 and their number."""
_CAUGHT: Final = (*ENDS, signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT)
_CHUNK: Final = 256
"""Bytes that a terminal which is ready takes without waiting."""
_LAST_WRITE: Final = 1.0
"""Seconds that the last write may take: a terminal may be stopped (Ctrl-S) or gone."""
_DEFAULT: Final = Size(24, 80)
_LFLAG: Final = 3
_CC: Final = 6


class LiveTerminal:
    """The screen and the keys of one terminal; as a context it enters the other screen, and leaves it."""

    def __init__(self, output: int, keys: int | None) -> None:
        self._output = output
        self._keys = keys
        self._saved: list[object] | None = None
        self._shown: list[str] = []
        self._lost = False
        """A write failed: the terminal is gone."""
        self._wake, self._woken = os.pipe()
        for handle in (self._wake, self._woken):
            os.set_blocking(handle, False)
        self._handlers: dict[int, object] = {}
        self._old_wakeup = -1

    def __enter__(self) -> "LiveTerminal":
        self._old_wakeup = signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        for number in _CAUGHT:
            if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                self._handlers[number] = signal.signal(number, lambda *_: None)
        self._take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal.signal returned
        signal.set_wakeup_fd(self._old_wakeup)
        os.close(self._wake)
        os.close(self._woken)

    def size(self) -> Size:
        """Return the size now; a terminal without one counts as 80x24."""
        try:
            columns, rows = os.get_terminal_size(self._output)
        except OSError:
            return _DEFAULT
        return Size(rows or _DEFAULT.rows, columns or _DEFAULT.columns)

    def draw(self, lines: Iterable[str]) -> None:
        """Show these lines; only rows that changed are written."""
        after = list(lines)
        before, self._shown = self._shown, after
        if not self._write(repaint(before, after)):
            self._shown = []  # a signal arrived while the terminal was stopped: the next draw repeats all

    def clear(self) -> None:
        """Forget what is shown: the next draw writes every row."""
        self._shown = []
        self._write("\x1b[2J")

    def wait(self, seconds: float) -> tuple[bytes | None, tuple[int, ...]]:
        """Wait for keys or signals; return the bytes of keys (None: the terminal is gone) and the signals."""
        seconds = 0.0 if self._lost else seconds
        handles = [self._wake, *([self._keys] if self._keys is not None else [])]
        ready, _, _ = select.select(handles, [], [], max(0.0, seconds))
        signals: tuple[int, ...] = ()
        if self._wake in ready:
            with suppress(BlockingIOError):
                signals = tuple(os.read(self._wake, 4096))
        if self._lost:
            return None, signals
        if self._keys is None or self._keys not in ready:
            return b"", signals
        try:
            return os.read(self._keys, 1024) or None, signals
        except OSError:
            return None, signals

    def suspend(self) -> None:
        """Give the terminal back and stop, as Ctrl-Z asks; return when the program is continued."""
        self._give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, lambda *_: None)
        self.resume()

    def resume(self) -> None:
        """Take the terminal again, whatever another program did to it."""
        self._take()

    def _take(self) -> None:
        if self._keys is not None:
            with suppress(termios.error):
                if self._saved is None:  # once: after a stop, the modes may be our own
                    self._saved = termios.tcgetattr(self._keys)
                raw = termios.tcgetattr(self._keys)
                raw[_LFLAG] &= ~(termios.ICANON | termios.ECHO)  # ISIG stays: Ctrl-C and Ctrl-Z are signals
                raw[_CC][termios.VMIN], raw[_CC][termios.VTIME] = 1, 0
                termios.tcsetattr(self._keys, termios.TCSANOW, raw)
        self._shown = []
        self._write(ENTER)

    def _give_back(self) -> None:
        with suppress(OSError, termios.error):
            termios.tcflow(self._output, termios.TCOOFF)  # alone, TCOON does not undo Ctrl-S
            termios.tcflow(self._output, termios.TCOON)
        self._write(LEAVE, _LAST_WRITE)
        if self._keys is not None and self._saved is not None:
            with suppress(OSError, termios.error):
                termios.tcsetattr(self._keys, termios.TCSANOW, self._saved)  # type: ignore[arg-type]  # as read

    def _write(self, text: str, longest: float | None = None) -> bool:
        """Write a text; False: a signal arrived, or the time was up, before the terminal took all of it."""
        data = text.encode("utf-8", "replace")
        wake = [self._wake] if longest is None else []
        while data:
            _, ready, _ = select.select([], [self._output], [], 0)
            if not ready:
                _, ready, _ = select.select(wake, [self._output], [], longest)
                if not ready:
                    return False
            try:
                data = data[os.write(self._output, data[:_CHUNK]) :]
            except OSError:
                self._lost = True
                return False
        return True
