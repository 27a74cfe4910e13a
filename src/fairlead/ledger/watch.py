"""LedgerWatch: waits until a record of any user changes.

It uses inotify. Where the user has no inotify instance or watch left, it looks at the folders at intervals.
"""

import math
import os
import select
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from types import TracebackType
from typing import Final, Protocol

from fairlead.ledger.place import StateDirectory
from fairlead.ledger.reader import MOST_FOLDERS, MOST_USERS

INTERVAL: Final = 0.5
"""Seconds between two looks without inotify."""
_PAUSE: Final = 0.02
"""Least seconds between two wakes, so that one user's many changes cost the others little."""
_COARSE: Final = 50_000_000
"""Nanoseconds within which two changes of a folder may get the same time stamp."""
_CANCEL: Final = ".cancel"


class _Source(Protocol):
    """What sees changes."""

    interval: float | None
    """Seconds after which to ask again; None: the descriptor is readable then."""

    def fileno(self) -> int: ...

    def changed(self) -> bool: ...

    def close(self) -> None: ...


class LedgerWatch:
    """Waits until a record changes, or another file descriptor is readable."""

    def __init__(self, place: StateDirectory, *, polling: bool = False) -> None:
        self._source = _open_source(place, polling)
        self._quiet_until = 0.0

    def fileno(self) -> int:
        """Return a descriptor that is readable once a record has changed; without inotify it never is."""
        return self._source.fileno()

    def wait(self, timeout: float, fds: Sequence[int] = ()) -> bool:
        """Wait for a change, a readable one of `fds`, or the timeout; return whether there is a change.

        A change that came before the call counts too: a caller first makes the watch, then reads the ledger.
        """
        end = time.monotonic() + timeout
        while True:
            now = time.monotonic()
            quiet = self._quiet_until - now
            if quiet <= 0 and self._source.changed():
                self._quiet_until = now + _PAUSE
                return True
            if now >= end:
                return False
            pauses = [end - now, *([quiet] if quiet > 0 else [])]
            if self._source.interval is not None:
                pauses.append(self._source.interval)
            watched = [] if quiet > 0 else [self._source.fileno()]
            if not _readable([*watched, *fds], min(pauses)).isdisjoint(fds):
                return self._source.changed()

    def close(self) -> None:
        """Stop watching."""
        self._source.close()

    def __enter__(self) -> "LedgerWatch":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _readable(fds: Sequence[int], timeout: float) -> set[int]:
    poll = select.poll()
    for each in fds:
        poll.register(each, select.POLLIN)
    return {each for each, _ in poll.poll(math.ceil(timeout * 1000))}


def _open_source(place: StateDirectory, polling: bool) -> _Source:
    if not polling:
        try:
            return _Notified(place)
        except (OSError, ImportError, AttributeError):  # a limit is reached, or the C library has no inotify
            pass
    return _Polled(place)


def _user_folders(place: StateDirectory) -> Iterator[str]:
    with os.scandir(place.path) as entries:
        names = [entry.name for entry in islice(entries, MOST_FOLDERS) if entry.name.startswith("u")]
    yield place.own
    others = (os.path.join(place.path, name) for name in sorted(names))
    yield from islice((path for path in others if path != place.own), MOST_USERS)


class _Notified:
    """Changes as inotify reports them."""

    interval: float | None = None

    def __init__(self, place: StateDirectory) -> None:
        from fairlead import inotify  # noqa: PLC0415 - ctypes: a job that starts at once needs none

        self._place = place
        self._kernel = inotify
        self._inotify = inotify.Inotify()
        try:
            self._scan()
        except BaseException:
            self._inotify.close()
            raise

    def fileno(self) -> int:
        return self._inotify.fileno()

    def close(self) -> None:
        self._inotify.close()

    def changed(self) -> bool:
        kernel = self._kernel
        changed = grown = False
        for event in self._inotify.read():
            if event.watch in self._folders or event.mask & (kernel.IGNORED | kernel.OVERFLOW):
                grown = True
            elif event.watch != self._private or event.name.endswith(_CANCEL):
                changed = True
        if grown:
            with suppress(OSError):  # a folder is gone, or no watch is left: reading the ledger says so
                self._scan()
        return changed or grown  # a record may be older than the watch of its folder

    def _scan(self) -> None:
        kernel, add = self._kernel, self._inotify.add
        appears = kernel.CREATE | kernel.MOVED_TO
        self._private = add(self._place.private, appears)
        self._folders = {add(self._place.path, appears)}
        for folder in _user_folders(self._place):
            try:
                self._folders.add(add(folder, appears))
                add(os.path.join(folder, "jobs"), kernel.MOVED_TO | kernel.DELETE)
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue


class _Polled:
    """Changes as the time stamps of the folders show them."""

    interval: float | None = INTERVAL

    def __init__(self, place: StateDirectory) -> None:
        self._place = place
        self._pipe = os.pipe()
        self._before = self._look()

    def fileno(self) -> int:
        return self._pipe[0]

    def close(self) -> None:
        for each in self._pipe:
            os.close(each)

    def changed(self) -> bool:
        now = self._look()
        changed = now != self._before
        self._before = now
        return changed

    def _look(self) -> list[object]:
        names = sorted(os.listdir(self._place.private))
        found: list[object] = [name for name in names if name.endswith(_CANCEL)]
        recent = time.time_ns() - _COARSE
        for folder in _user_folders(self._place):
            try:
                status = os.stat(os.path.join(folder, "jobs"), follow_symlinks=False)
            except OSError:
                continue
            found.append((folder, status.st_ino, status.st_mtime_ns))
            if status.st_mtime_ns > recent:
                found.append(recent)  # another change may have the same stamp: the next look differs
        return found
