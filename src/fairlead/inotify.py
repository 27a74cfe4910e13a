"""Inotify: the kernel's notices of changed folders, by ctypes; Python's standard library has none."""

import ctypes
import os
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

CLOSE_WRITE: Final = 0x8
CLOSE_NOWRITE: Final = 0x10
MOVED_FROM: Final = 0x40
MOVED_TO: Final = 0x80
CREATE: Final = 0x100
DELETE: Final = 0x200
DELETE_SELF: Final = 0x400
IGNORED: Final = 0x8000
OVERFLOW: Final = 0x4000
IS_FOLDER: Final = 0x40000000
_ONLY_FOLDERS: Final = 0x01000000 | 0x02000000
"""IN_ONLYDIR and IN_DONT_FOLLOW."""
_HEADER: Final = struct.Struct("iIII")
_BUFFER: Final = 64 * 1024


class FolderEvent(NamedTuple):
    """One change in a watched folder."""

    watch: int
    mask: int
    name: str


class Inotify:
    """An inotify instance."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._file: int = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._file < 0:
            raise _error("inotify_init1")

    def fileno(self) -> int:
        """Return the descriptor that is readable once there is an event."""
        return self._file

    def add(self, path: str, mask: int) -> int:
        """Watch a folder; the same folder again keeps its number."""
        watch: int = self._libc.inotify_add_watch(self._file, os.fsencode(path), mask | _ONLY_FOLDERS)
        if watch < 0:
            raise _error(path)
        return watch

    def read(self) -> Iterator[FolderEvent]:
        """Yield the events that have come."""
        while True:
            try:
                data = os.read(self._file, _BUFFER)
            except BlockingIOError:
                return
            place = 0
            while place < len(data):
                watch, mask, _, length = _HEADER.unpack_from(data, place)
                place += _HEADER.size
                name = os.fsdecode(data[place : place + length].rstrip(b"\0"))
                place += length
                yield FolderEvent(watch, mask, name)

    def close(self) -> None:
        """Close the instance and its watches."""
        os.close(self._file)


def _error(what: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), what)
