"""DirectoryLock: the one lock of the ledger, an flock on the state directory itself.

A lock file could be replaced by its owner; the directory cannot. The kernel releases the lock with the last
copy of the descriptor: it dies with its holder, and a child that was forked under the lock keeps it until it
closes its own copy.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from fairlead.errors import LedgerError
from fairlead.ledger.record import printable
from fairlead.ledger.users import user_name

PATIENCE: Final = 1.0
"""Seconds after which the holder is named."""
_FIRST_PAUSE: Final = 0.0005
_LONGEST_PAUSE: Final = 0.01
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class DirectoryLock:
    """The lock on a directory; one process may hold it once."""

    def __init__(self, path: str, root: str = "/", patience: float = PATIENCE) -> None:
        self._path = path
        self._root = root
        self._patience = patience
        self._file: int | None = None

    @property
    def held(self) -> bool:
        """Whether this process holds the lock, or a copy of it."""
        return self._file is not None

    @contextmanager
    def hold(self, waiting: Callable[[str], None] | None = None) -> Iterator[None]:
        """Hold the lock; after a second, `waiting` gets one line about its holder."""
        if self._file is not None:
            raise LedgerError(f"{self._path}: this process holds the lock already", "report this as a fault")
        try:
            self._file = self._lock(waiting)
        except OSError as error:
            raise LedgerError(
                f"{self._path}: {error.strerror}: the ledger cannot be locked",
                "check that the directory exists and that you can read it",
            ) from None
        try:
            yield
        finally:
            self.release_copy()

    def release_copy(self) -> None:
        """Close this process's copy; the lock stays held while a forked process has another."""
        if self._file is not None:
            os.close(self._file)  # LOCK_UN would take the lock from a forked process too
            self._file = None

    def _lock(self, waiting: Callable[[str], None] | None) -> int:
        while True:
            file = os.open(self._path, _OPEN)
            try:
                self._wait(file, waiting)
                if os.path.samestat(os.fstat(file), os.lstat(self._path)):
                    return file
            except BaseException:
                os.close(file)
                raise
            os.close(file)  # another directory has taken its place: lock that one

    def _wait(self, file: int, waiting: Callable[[str], None] | None) -> None:
        end = time.monotonic() + self._patience
        pause = _FIRST_PAUSE
        while not _try(file):
            left = end - time.monotonic()
            if left <= 0:
                if waiting is not None:
                    waiting(f"waiting for the lock of {self._path}, {lock_holder(file, self._root)}")
                fcntl.flock(file, fcntl.LOCK_EX)  # in the order of arrival
                return
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)


def _try(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock_holder(file: int, root: str = "/") -> str:
    """Return the process that holds the lock of an open directory, in words."""
    pid = _holder(file, root)
    if pid is None:
        return "which a process holds that /proc/locks does not show"
    try:
        with open(os.path.join(root, f"proc/{pid}/comm"), encoding="utf-8", errors="replace") as comm:
            command = printable(comm.read().strip())
        user = user_name(os.stat(os.path.join(root, f"proc/{pid}")).st_uid)
    except OSError:
        return f"which process {pid} holds"
    return f"which process {pid} ({command}, user {user}) holds"


def _holder(file: int, root: str) -> int | None:
    # A line is `1: FLOCK  ADVISORY  WRITE 1234 fe:00:12345 0 EOF`; that of a waiting process has `->` first.
    status = os.fstat(file)
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    pids: dict[bool, int] = {}
    try:
        with open(os.path.join(root, "proc/locks"), encoding="ascii", errors="replace") as locks:
            for line in locks:
                words = line.split()
                if len(words) < 6 or words[1] != "FLOCK" or words[3] != "WRITE":
                    continue
                where, _, inode = words[5].rpartition(":")
                if inode == str(status.st_ino) and words[4].isdecimal() and int(words[4]) > 0:
                    pids.setdefault(where == device, int(words[4]))
    except OSError:
        return None
    # btrfs and overlayfs report another device here than in stat: then the inode has to do.
    return pids.get(True, pids.get(False))
