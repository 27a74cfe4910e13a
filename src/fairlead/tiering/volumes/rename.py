"""Names exchanged atomically (renameat2, Linux 3.15), and what to do when another program was faster."""

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final

_AT_FDCWD: Final = -100
_NOREPLACE: Final = 1
_EXCHANGE: Final = 2
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def exchange(one: str, other: str) -> None:
    """Exchange two names in one step; both must exist."""
    _renameat2(one, other, _EXCHANGE)


def rename_new(source: str, target: str) -> None:
    """Rename a file to a name that must be free."""
    _renameat2(source, target, _NOREPLACE)


def _renameat2(one: str, other: str, flags: int) -> None:
    function: Any = getattr(_LIBC, "renameat2", None)
    if function is None:
        raise OSError(errno.ENOSYS, "the C library has no renameat2", one)
    if function(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), flags):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), other)


@contextmanager
def pinned(path: str) -> Iterator[int]:
    """Yield a descriptor of a name, also of a link; while it is open its inode number is not used again."""
    handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def switch(entry: str, path: str, expected: int, swap: Callable[[str, str], None] = exchange) -> bool:
    """Put what `entry` names in the place of the file of a descriptor; return whether that happened.

    If a program has put another file at `path` meanwhile, that file goes back, and so does a still newer one:
    what a step takes out must be what the step before has put in, or it is newer than everything here.
    """
    with _quiet_folder(path), ExitStack() as pins:
        mine = placed = pins.enter_context(pinned(entry))
        wanted = expected
        swap(entry, path)
        while not _is_same(out := pins.enter_context(pinned(entry)), wanted):
            wanted, placed = placed, out
            try:
                swap(entry, path)
            except FileNotFoundError:  # the name was deleted: there is nothing to give back
                return False
    return placed == mine


def _is_same(one: int, other: int) -> bool:
    return os.fstat(one).st_ino == os.fstat(other).st_ino


@contextmanager
def _quiet_folder(path: str) -> Iterator[None]:
    """Keep the folder's time of change: to programs nothing has changed in it."""
    folder = os.path.dirname(path)
    before = os.stat(folder)
    yield
    with suppress(OSError):  # another user's folder
        os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))


def sync_folder(path: str) -> None:
    """Make the names in a folder durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_empty(path: str, top: str) -> None:
    """Remove a folder and those above it below `top`, as far as they are empty."""
    while path.startswith(f"{top}/"):
        try:
            os.rmdir(path)
        except OSError:
            return
        path = os.path.dirname(path)
