"""LedgerFiles: the calls by which the ledger changes its files; tests end the process between any two."""

import errno
import os
from typing import Final

_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class LedgerFiles:
    """Changes files, one system call at a time."""

    def create(self, path: str, mode: int, flags: int = 0) -> int:
        """Open a file of this user for writing, and give it exactly this mode."""
        file = os.open(path, _WRITE | flags, mode)
        try:
            status = os.fstat(file)
            if status.st_uid != os.geteuid():  # the owner of the state directory could put one there
                raise PermissionError(errno.EPERM, "it belongs to another user", path)
            if status.st_mode & 0o777 != mode:
                os.fchmod(file, mode)  # the umask of the user has changed it
        except BaseException:
            os.close(file)
            raise
        return file

    def write(self, file: int, data: bytes) -> None:
        """Write at the start of a file."""
        done = 0
        while done < len(data):
            done += os.pwrite(file, data[done:], done)

    def fsync(self, file: int) -> None:
        """Have the disk store a file or folder."""
        os.fsync(file)

    def rename(self, source: str, target: str) -> None:
        """Give a file another name; one that has the name already is replaced."""
        os.rename(source, target)

    def unlink(self, path: str) -> None:
        """Remove a file; there may be none."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return
