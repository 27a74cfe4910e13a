"""SignalQueue: the blocked signals of this process, one at a time, by signalfd(2).

`signal.sigtimedwait` of Python is no way to wait for them: if the process is stopped until after the timeout
(SIGSTOP, a paused container), it returns a signal that was never sent. With a timeout of 0 it is sound.
"""

import math
import os
import select
import signal
import struct
import time
from collections.abc import Collection
from contextlib import suppress
from typing import Final, NamedTuple

_SET_BYTES: Final = 128
"""Bytes of a sigset_t, at most."""
_MESSAGE_BYTES: Final = 128
_MESSAGE: Final = struct.Struct("=IiiI")
"""The first fields of a signalfd_siginfo: number, errno, code, pid of the sender."""
_STEP: Final = 0.05
"""Seconds between two looks without signalfd."""


class ReceivedSignal(NamedTuple):
    """A signal that this process got."""

    number: int
    code: int
    """As si_code: above 0 the kernel has sent it."""
    sender: int
    """The pid of the process that sent it; 0: none."""


class SignalQueue:
    """The signals of a set that are blocked in this process; reading one removes it."""

    def __init__(self, numbers: Collection[int], *, polling: bool = False) -> None:
        self._numbers = frozenset(numbers)
        self._file: int | None = None
        if not polling:
            with suppress(
                OSError, ImportError, AttributeError
            ):  # no descriptor is left, or no ctypes is here
                self._file = _signal_file(self._numbers)

    def wait(self, timeout: float) -> ReceivedSignal | None:
        """Return the next signal; None: there was none before the timeout."""
        if self._file is None:
            if (received := self._taken()) is None:
                time.sleep(min(timeout, _STEP))
            return received or self._taken()
        poll = select.poll()
        poll.register(self._file, select.POLLIN)
        poll.poll(math.ceil(timeout * 1000))
        try:
            number, _, code, sender = _MESSAGE.unpack_from(os.read(self._file, _MESSAGE_BYTES))
        except BlockingIOError:
            return None
        return ReceivedSignal(number, code, sender)

    def close(self) -> None:
        """Leave the signals that were not read to this process."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _taken(self) -> ReceivedSignal | None:
        received = signal.sigtimedwait(self._numbers, 0)
        return received and ReceivedSignal(received.si_signo, received.si_code, received.si_pid)


def _signal_file(numbers: Collection[int]) -> int:
    import ctypes  # noqa: PLC0415  # not before the command runs

    libc = ctypes.CDLL(None, use_errno=True)
    signals = ctypes.create_string_buffer(_SET_BYTES)
    libc.sigemptyset(signals)
    for number in set(numbers) & signal.valid_signals():
        libc.sigaddset(signals, int(number))
    file: int = libc.signalfd(-1, signals, os.O_CLOEXEC | os.O_NONBLOCK)  # SFD_ has the values of O_
    if file < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "signalfd")
    return file
