"""Watcher: accesses to the files of both volumes, as inotify reports them."""

import os
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from fairlead import inotify
from fairlead.errors import SettingsError
from fairlead.inotify import Inotify
from fairlead.tiering.volumes.pair import OWN, VolumePair

_MASK: Final = (
    inotify.CLOSE_WRITE
    | inotify.CLOSE_NOWRITE
    | inotify.CREATE
    | inotify.DELETE
    | inotify.MOVED_FROM
    | inotify.MOVED_TO
)
_NAMES: Final = inotify.CREATE | inotify.DELETE | inotify.MOVED_FROM | inotify.MOVED_TO


class TierEvent(NamedTuple):
    """What happened to a file: it was closed after reading or writing, or its name came or went."""

    key: str
    is_access: bool
    is_write: bool
    on_fast: bool
    """Which volume reports it."""


class TierWatcher:
    """Watches every folder of both volumes; the mover's own reads are left out."""

    def __init__(self, pair: VolumePair) -> None:
        self._pair = pair
        self._inotify = Inotify()
        self._folders: dict[int, tuple[bool, str]] = {}
        self._own: Counter[str] = Counter()
        self.is_stale = False
        """Whether folders were moved or events were lost: all files must be looked at again."""
        self.watch_all()

    def fileno(self) -> int:
        """Return the descriptor that is readable once something happened."""
        return self._inotify.fileno()

    def close(self) -> None:
        """Watch no longer."""
        self._inotify.close()

    def watch_all(self) -> None:
        """Watch every folder, also new ones."""
        self._folders.clear()
        for fast, top in ((True, self._pair.fast), (False, self._pair.slow)):
            self._watch(fast, top, "")

    def opened(self, path: str) -> None:
        """Expect the notice of a read of our own."""
        self._own[path] += 1

    def read(self) -> Iterator[TierEvent]:
        """Yield what happened since the last call."""
        for event in self._inotify.read():
            if event.mask & inotify.OVERFLOW:
                self.is_stale = True
                self._own.clear()
                continue
            place = self._folders.get(event.watch)
            if place is None or not event.name:
                continue
            fast, folder = place
            key = f"{folder}/{event.name}" if folder else event.name
            if event.mask & inotify.IS_FOLDER:
                if event.mask & _NAMES and key != OWN:
                    self.is_stale = True  # files in it may have come before it was watched
                continue
            if event.mask & inotify.CLOSE_NOWRITE and self._is_own(fast, key):
                continue
            closed = bool(event.mask & (inotify.CLOSE_WRITE | inotify.CLOSE_NOWRITE))
            yield TierEvent(key, closed, bool(event.mask & inotify.CLOSE_WRITE), fast)

    def _is_own(self, fast: bool, key: str) -> bool:
        path = self._pair.path(key) if fast else self._pair.slow_path(key)
        if path not in self._own:
            return False
        self._own[path] -= 1
        if not self._own[path]:
            del self._own[path]
        return True

    def _watch(self, fast: bool, top: str, folder: str) -> None:
        path = f"{top}/{folder}" if folder else top
        try:
            self._folders[self._inotify.add(path, _MASK)] = fast, folder
        except FileNotFoundError:
            return  # it was removed meanwhile
        except OSError as error:
            raise SettingsError(
                f"{path}: cannot be watched: {error.strerror}",
                "raise fs.inotify.max_user_watches above the number of folders of both volumes",
            ) from None
        for name in _folders_in(path):
            if name != OWN or folder:
                self._watch(fast, top, f"{folder}/{name}" if folder else name)


def _folders_in(path: str) -> list[str]:
    try:
        with os.scandir(path) as found:
            return [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
