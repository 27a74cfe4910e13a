"""Write a file atomically: under a temporary name in the same folder, synced to the disk, then renamed."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, Final

from fairlead.errors import OutputError

_DISK: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
_HINT: Final = "make room on that disk or in the quota, or name a file on another disk"


def is_disk_fault(error: OSError) -> bool:
    """Return whether the disk cannot store more: it is full, over quota, at a limit or damaged."""
    return error.errno in _DISK


@contextmanager
def atomic_write(path: str, *, text: bool = False, folders: bool = False) -> Iterator[IO[Any]]:
    """Open a file to write; it takes its name only when the block ends without an error.

    Raises OutputError if the disk cannot store it; the caller words other OSErrors. A pipe, a terminal or
    another device cannot be renamed and is written directly. `folders` creates the parent folders.
    """
    try:
        if folders:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        if _is_device(path):
            with _open_stream(os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC), text) as out:
                yield out
        else:
            yield from _write_and_rename(os.path.realpath(path), text)
    except OSError as error:
        if isinstance(error, BrokenPipeError) or not is_disk_fault(error):
            raise
        raise OutputError(f"{path}: cannot be written: {error.strerror}", _HINT) from None


def check_writable(path: str) -> None:
    """Raise the OSError that a write would raise, before the work begins. The file stays unchanged."""
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not _is_device(path):
        handle, name = _create_temporary(os.path.realpath(path))
        os.close(handle)
        os.unlink(name)


def _write_and_rename(target: str, text: bool) -> Iterator[IO[Any]]:
    if os.path.isdir(target):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
    handle, name = _create_temporary(target)
    try:
        with _open_stream(handle, text) as out:
            yield out
            out.flush()
            os.fsync(handle)  # a file system may notice only here that it is full
        with suppress(FileNotFoundError):
            os.chmod(name, stat.S_IMODE(os.stat(target).st_mode))
        os.replace(name, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _create_temporary(target: str) -> tuple[int, str]:
    """Create a file beside another; the process id keeps two programs that write the same file apart."""
    name = f"{target}.{os.getpid()}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(name, flags, 0o666), name


def _open_stream(handle: int, text: bool) -> IO[Any]:
    return os.fdopen(handle, "w", encoding="utf-8") if text else os.fdopen(handle, "wb")


def _is_device(path: str) -> bool:
    """Return whether a path is not a regular file: a device, a pipe, or what /dev/stdout refers to."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    named = os.path.abspath(path).startswith(("/dev/", "/proc/")) and not stat.S_ISDIR(mode)
    return named or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
