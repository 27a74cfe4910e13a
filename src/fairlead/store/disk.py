"""The store's steps on the file system that decide what a crash leaves: one seam for all of them.

A test passes a disk that records the steps, and builds from the record what a power cut may leave.
"""

import os
from typing import Final, Protocol

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_MODE: Final = 0o664
"""Other pods read and write the same volume; the umask takes away what they must not."""


class Disk(Protocol):
    """What an upload does to the file system."""

    def create(self, path: str) -> int:
        """Create a file that did not exist, and open it to write."""

    def reopen(self, path: str) -> int:
        """Open an existing file to append to it."""

    def write(self, handle: int, data: memoryview) -> None:
        """Append all of the data."""

    def sync(self, handle: int) -> None:
        """Wait until a file, or a folder's names, are on the disk."""

    def replace(self, source: str, name: str, folder: int) -> None:
        """Give a file a name in an open folder, instead of what has it."""

    def link_new(self, source: str, name: str, folder: int) -> None:
        """Give a file a name in an open folder; FileExistsError where something has it."""

    def remove(self, path: str) -> None:
        """Remove a file."""


class PosixDisk:
    """The real one."""

    def create(self, path: str) -> int:
        """Create a file that did not exist, and open it to write."""
        return os.open(path, _NEW, _MODE)

    def reopen(self, path: str) -> int:
        """Open an existing file to append to it."""
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)

    def write(self, handle: int, data: memoryview) -> None:
        """Append all of the data."""
        while data:
            data = data[os.write(handle, data) :]

    def sync(self, handle: int) -> None:
        """Wait until a file, or a folder's names, are on the disk."""
        os.fsync(handle)

    def replace(self, source: str, name: str, folder: int) -> None:
        """Give a file a name in an open folder, instead of what has it."""
        os.rename(source, name, dst_dir_fd=folder)

    def link_new(self, source: str, name: str, folder: int) -> None:
        """Give a file a name in an open folder; FileExistsError where something has it."""
        os.link(source, name, dst_dir_fd=folder, follow_symlinks=False)
        os.unlink(source)

    def remove(self, path: str) -> None:
        """Remove a file."""
        os.unlink(path)
