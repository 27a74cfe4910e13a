"""ReadLease: the kernel's word that no program has a file open for writing, and none opened it since."""

import errno
import fcntl
import signal
from contextlib import suppress
from typing import Final

_NO_OWNER: Final = 0


class ReadLease:
    """A lease of fcntl(2) on an open file.

    Readers never wait for it. A program that opens the file for writing waits until the lease is released,
    which the copying does at its next look, at most a piece of a file later.
    """

    def __init__(self, handle: int) -> None:
        """Take the lease; BlockingIOError: a program has the file open for writing."""
        self._handle = handle
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        # The kernel sends SIGIO to the lease's owner when it is broken: `is_broken` asks instead.
        with suppress(OSError):
            fcntl.fcntl(handle, fcntl.F_SETOWN, _NO_OWNER)

    def is_broken(self) -> bool:
        """Return whether a program waits to open the file for writing."""
        return fcntl.fcntl(self._handle, fcntl.F_GETLEASE) != fcntl.F_RDLCK

    def release(self) -> None:
        """Let writers go on."""
        with suppress(OSError):
            fcntl.fcntl(self._handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def ignore_lease_signals() -> None:
    """Ignore SIGIO, which would end the process; for the main thread of a program."""
    signal.signal(signal.SIGIO, signal.SIG_IGN)


def lease_refusal(error: OSError) -> str:
    """Return why a lease was refused."""
    if isinstance(error, BlockingIOError):
        return "a program has it open for writing"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "it belongs to another user"
    return f"its file system gives no lease ({error.strerror})"
