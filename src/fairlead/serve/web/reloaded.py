"""Files that change while the program runs: a kubelet swaps a link, an administrator overwrites them."""

import os
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Value = TypeVar("Value")
_Stamp = tuple[tuple[int, ...] | None, ...]


class ReloadedFiles(Generic[Value]):
    """A value loaded from files, and loaded again when they change; the first load must succeed.

    Changed files that cannot be used are logged once, and leave the value as it was.
    """

    def __init__(self, paths: Sequence[str], load: Callable[[], Value], say: Callable[[str], None]) -> None:
        """Load the value with `load`, which raises OSError or ValueError for files that cannot be used."""
        self._paths = paths
        self._load = load
        self._say = say
        self._stamp = _stamp(paths)  # before they are read: a change in between is noticed later
        self._value = load()

    def current(self) -> Value:
        """Return the current value."""
        while (stamp := _stamp(self._paths)) != self._stamp:
            self._stamp = stamp
            try:
                self._value = self._load()
            except (OSError, ValueError) as error:
                if _stamp(self._paths) == stamp:  # else they changed while they were read
                    self._say(f"{' and '.join(self._paths)}: {error_text(error)}: the last files stay in use")
        return self._value


def error_text(error: Exception) -> str:
    """Return an error's text; system errors without their number."""
    words = error.strerror if isinstance(error, OSError) else str(error)
    return words or type(error).__name__


def _stamp(paths: Sequence[str]) -> _Stamp:
    """Return what changes when a file is replaced or written to; None for a missing file."""
    stamps: list[tuple[int, ...] | None] = []
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            stamps.append(None)
        else:
            stamps.append((status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(stamps)
