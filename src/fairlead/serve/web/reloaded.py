"""Files that someone replaces while we run: a kubelet swaps a link, an administrator writes over them."""

import os
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Value = TypeVar("Value")
_Stamp = tuple[tuple[int, ...] | None, ...]


class ReloadedFiles(Generic[Value]):
    """A value made of files, made anew when they change; it starts with what is there, or not at all.

    New files that cannot be used are said once, and leave the value as it was.
    """

    def __init__(self, paths: Sequence[str], make: Callable[[], Value], say: Callable[[str], None]) -> None:
        """Take what makes the value: it raises OSError or ValueError for files that cannot be used."""
        self._paths = paths
        self._make = make
        self._say = say
        self._stamp = _stamp(paths)  # before they are read: a change in between is seen later
        self._value = make()

    def current(self) -> Value:
        """Return the value as of now."""
        while (stamp := _stamp(self._paths)) != self._stamp:
            self._stamp = stamp
            try:
                self._value = self._make()
            except (OSError, ValueError) as error:
                if _stamp(self._paths) == stamp:  # else they were read in the middle of a change
                    self._say(
                        f"{' and '.join(self._paths)}: {error_text(error)}: what was loaded before stays"
                    )
        return self._value


def error_text(error: Exception) -> str:
    """Return an error in words; the system's own come without their number."""
    words = error.strerror if isinstance(error, OSError) else str(error)
    return words or type(error).__name__


def _stamp(paths: Sequence[str]) -> _Stamp:
    """Return what changes when a file is replaced, or written to; None for one that is not there."""
    found: list[tuple[int, ...] | None] = []
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            found.append(None)
        else:
            found.append((status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(found)
