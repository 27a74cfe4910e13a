"""ProcessLock: one process for one job of a user, held by that process and by no child of it.

The file of the lock names that process. A process that is being killed holds its lock to its very end, and a
command that took it for a living one would leave its jobs without one.
"""

import fcntl
import os
import signal
import time
from contextlib import suppress
from typing import Final

from fairlead.job import ProcessRef
from fairlead.ledger.liveness import is_alive, process_ref

_LENGTH: Final = 256
_PAUSE: Final = 0.002
PATIENCE: Final = 0.25
"""Seconds for which a lock is asked for again whose holder is about to end, or has not named itself yet."""
_FLAGS: Final = 6
"""The kernel's flags of a process in /proc/PID/stat, after the name of the program."""
_EXITING: Final = 0x4
"""PF_EXITING."""
_KILLED: Final = 1 << (signal.SIGKILL - 1)


class ProcessLock:
    """The lock of a process; the kernel releases it when its holder ends, however it ends."""

    def __init__(self, handle: int, path: str) -> None:
        self.handle = handle
        self._path = path

    @classmethod
    def take(cls, path: str, patience: float = PATIENCE) -> "ProcessLock | None":
        """Return the lock on a file, which is made; None where another process holds it and lives."""
        until = time.monotonic() + patience
        while True:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            lock = cls(handle, path)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if lock.is_in_place():
                    return lock
                held = False  # its last holder removed the file in between
            except BlockingIOError:
                held = _has_living_holder(handle)
            except BaseException:
                lock.close()
                raise
            lock.close()
            if held or time.monotonic() >= until:
                return None
            time.sleep(_PAUSE)

    @classmethod
    def inherited(cls, path: str, handle: int) -> "ProcessLock | None":
        """Return the lock that the starter of this process took; None where the handle is not that lock."""
        lock = cls(handle, path)
        if not lock.is_in_place():
            return None
        os.set_inheritable(handle, False)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the same open file: it holds the lock already
        return lock

    def name_holder(self) -> None:
        """Write into the file that this process holds it, also after it executes another program."""
        ref = process_ref(os.getpid())
        if ref is not None:
            text = f"{ref.pid} {ref.start} {ref.boot}"
            with suppress(OSError):  # a full disk: then others ask for the lock a little longer
                os.pwrite(self.handle, text.ljust(_LENGTH).encode(), 0)

    def is_in_place(self) -> bool:
        """Return whether the file that this lock is on still exists under its name."""
        try:
            here, there = os.fstat(self.handle), os.stat(self._path, follow_symlinks=False)
        except OSError:
            return False
        return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)

    def remove(self) -> None:
        """Remove the file and release the lock: the next holder makes another file."""
        if self.is_in_place():
            with suppress(OSError):
                os.unlink(self._path)
        self.close()

    def close(self) -> None:
        """Close this process's handle; the lock is released once no process has one."""
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1


def _has_living_holder(handle: int) -> bool:
    words = os.pread(handle, _LENGTH, 0).decode("ascii", "replace").split()
    if len(words) != 3 or not (words[0].isdecimal() and words[1].isdecimal()):
        return False
    ref = ProcessRef(int(words[0]), int(words[1]), words[2])
    return is_alive(ref) and not _is_ending(ref.pid)


def _is_ending(pid: int) -> bool:
    """Return whether a process executes its end, or has yet to notice that it was killed."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat, open(f"/proc/{pid}/status", "rb") as status:
            flags = int(stat.read().rpartition(b")")[2].split()[_FLAGS])
            waiting = [int(line.split()[1], 16) for line in status if line.startswith((b"SigPnd", b"ShdPnd"))]
    except (OSError, ValueError, IndexError):
        return True
    return bool(flags & _EXITING) or any(mask & _KILLED for mask in waiting)
