"""Signals of a runner: what its caller set, which ones reach the command, and which end the wait for it."""

import os
import signal
import socket
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, Final

_OWN: Final = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ}
_FAULTS: Final = {
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGABRT,
    signal.SIGTRAP,
    signal.SIGSYS,
}
PASSED_ON: Final = frozenset(signal.valid_signals()) - _OWN - _FAULTS
"""Signals that the runner passes on to its command."""
STOPS: Final = frozenset({signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})
"""The terminal's stop signals."""
ENDS: Final = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM})
"""Signals that end the wait in the queue."""
_STANDARD: Final = 2
"""The highest of the standard descriptors."""


@dataclass(frozen=True, slots=True)
class CallerState:
    """Signals and descriptors as the caller of this program set them: the command gets the same."""

    ignored: frozenset[int] = frozenset()
    mask: frozenset[int] = frozenset()
    descriptors: frozenset[int] = frozenset(range(_STANDARD + 1))

    @classmethod
    def read(cls) -> "CallerState":
        """Return the state of this process; call it before any handler is installed or file opened.

        Python itself ignores SIGPIPE and SIGXFSZ: what the caller set for these two is lost.
        """
        ignored = {number for number in PASSED_ON if signal.getsignal(number) is signal.SIG_IGN}
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            ignored.add(signal.SIGCHLD)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        return cls(frozenset(ignored), frozenset(mask), frozenset(_descriptors()))

    @property
    def handled(self) -> frozenset[int]:
        """The signals that the runner of a command waits for; blocked ones stay until it reads them."""
        return (PASSED_ON - self.ignored) | {signal.SIGCHLD}

    def block(self) -> None:
        """Block the handled signals in this process, and let the ends of its children be noticed."""
        signal.pthread_sigmask(signal.SIG_BLOCK, self.handled)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, children would vanish with their exit codes

    def restore(self) -> None:
        """Give this process, which is about to exec, the signals and descriptors of the caller."""
        for number in _descriptors():
            if number not in self.descriptors:
                os.set_inheritable(number, False)  # a driver's library may have opened it without this
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            wanted = signal.SIG_IGN if number in self.ignored else signal.SIG_DFL
            if signal.getsignal(number) not in (wanted, None):
                signal.signal(number, wanted)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)


def _descriptors() -> list[int]:
    """Return the open descriptors of this process, without the one that lists them."""
    with os.scandir("/proc/self/fd") as entries:
        numbers = [int(entry.name) for entry in entries]
    open_ones = []
    for number in numbers:
        try:
            os.get_inheritable(number)
        except OSError:
            continue
        open_ones.append(number)
    return open_ones


class EndSignals:
    """Notices the signals that end the wait in the queue, until a command takes them over.

    They are handled while the process waits, and blocked while it decides: a process that stops or ends
    while it holds the machine's lock would hold up every other.
    """

    def __init__(self, caller: CallerState) -> None:
        self._caller = caller
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._old: dict[int, Any] = {}
        self._old_fd = -1
        self.received: int | None = None
        """The first signal that arrived."""

    def fileno(self) -> int:
        """Return a descriptor that is readable once a signal has arrived."""
        return self._reader.fileno()

    def let_in(self) -> None:
        """Unblock the signals, and deliver those that arrived meanwhile."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._caller.mask - self._caller.handled)

    def hold_off(self) -> None:
        """Block the signals."""
        self._caller.block()

    def __enter__(self) -> "EndSignals":
        self.hold_off()
        self._old_fd = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in ENDS - self._caller.ignored:
            self._old[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the signals blocked: what follows is the command, which gets them, or the end."""
        self.hold_off()
        signal.set_wakeup_fd(self._old_fd)
        for number, handler in self._old.items():
            signal.signal(number, handler)
        self._reader.close()
        self._writer.close()

    def _receive(self, number: int, _: FrameType | None) -> None:
        if self.received is None:
            self.received = number
