"""Write a file whole or not at all: under a temporary name in the same folder, to the disk, then renamed."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, Final

from fairlead.errors import OutputError

_DISK: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
_ROOM: Final = "make room on that disk or in the quota, or name a file on another disk"


def is_disk_fault(error: OSError) -> bool:
    """Say whether an error means that the disk cannot take more: full, over quota, at a limit, damaged."""
    return error.errno in _DISK


@contextmanager
def atomic_write(path: str, *, text: bool = False, folders: bool = False) -> Iterator[IO[Any]]:
    """Open a file to write; it takes its name only when the block ends without an error.

    OutputError where the disk cannot take it; other OSErrors are the caller's to word. A pipe, a terminal or
    another device has no half: it is written as it is. `folders` makes those that the file lies in.
    """
    try:
        if folders:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        if _is_device(path):
            with _opened(os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC), text) as out:
                yield out
        else:
            yield from _replacing(os.path.realpath(path), text)
    except OSError as error:
        if isinstance(error, BrokenPipeError) or not is_disk_fault(error):
            raise
        raise OutputError(f"{path}: cannot be written: {error.strerror}", _ROOM) from None


def check_writable(path: str) -> None:
    """Raise the OSError that writing would meet: before the work begins. The file stays as it is."""
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not _is_device(path):
        handle, name = _temporary(os.path.realpath(path))
        os.close(handle)
        os.unlink(name)


def _replacing(place: str, text: bool) -> Iterator[IO[Any]]:
    if os.path.isdir(place):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), place)
    handle, name = _temporary(place)
    try:
        with _opened(handle, text) as out:
            yield out
            out.flush()
            os.fsync(handle)  # a file system may find only now that it is full
        with suppress(FileNotFoundError):
            os.chmod(name, stat.S_IMODE(os.stat(place).st_mode))
        os.replace(name, place)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _temporary(place: str) -> tuple[int, str]:
    """Make a file beside another; the name tells two programs that write the same file apart."""
    name = f"{place}.{os.getpid()}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(name, flags, 0o666), name


def _opened(handle: int, text: bool) -> IO[Any]:
    return os.fdopen(handle, "w", encoding="utf-8") if text else os.fdopen(handle, "wb")


def _is_device(path: str) -> bool:
    """Say whether a path is no file of its own: a device, a pipe, or what /dev/stdout happens to be."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    named = os.path.abspath(path).startswith(("/dev/", "/proc/")) and not stat.S_ISDIR(mode)
    return named or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
