"""Wakeup: the signals of a process in the background, as a socket that a selector waits on."""

import signal
import socket
from contextlib import suppress
from typing import Final

_HANDLED: Final = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
ENDS: Final = frozenset({signal.SIGTERM, signal.SIGINT})
"""Signals that end the process."""
RELOADS: Final = frozenset({signal.SIGUSR1})
"""Signals after which the process reads again what it runs by."""


class Wakeup:
    """A socket that is readable once a child has ended, or this process must end or read again."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        for end in (self._reader, self._writer):
            end.setblocking(False)

    def fileno(self) -> int:
        """Return a descriptor that is readable once a signal has come."""
        return self._reader.fileno()

    def received(self) -> set[int]:
        """Return the signals that came since the last call."""
        with suppress(BlockingIOError):
            return set(self._reader.recv(4096))
        return set()

    def close(self) -> None:
        """Handle no signal any more."""
        signal.set_wakeup_fd(-1)
        for number in (*_HANDLED, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        self._reader.close()
        self._writer.close()

    def __enter__(self) -> "Wakeup":
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in _HANDLED:
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the end of the terminal that it was started from
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
