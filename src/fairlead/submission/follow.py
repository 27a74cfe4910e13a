"""Inputs as they appear in a folder, a camera's or a sensor's: taken once closed or moved there."""

import os
import select
from collections.abc import Iterator
from typing import Final

from fairlead.errors import JobError
from fairlead.inotify import CLOSE_WRITE, CREATE, IGNORED, IS_FOLDER, MOVED_TO, OVERFLOW, FolderEvent, Inotify
from fairlead.submission.sources import Found, InputFile, below_folder, named

_MASK: Final = CLOSE_WRITE | MOVED_TO | CREATE
_IDLE: Final = None


class FolderFollower:
    """Yields what is in a folder, then what appears in it, until `stop` becomes readable.

    A file that is listed while it appears is yielded twice: whoever takes it knows it by its content.
    """

    def __init__(self, folder: str, stop: int) -> None:
        self._folder = folder
        self._stop = stop
        self._paths: dict[int, str] = {}

    def __iter__(self) -> Iterator[Found | None]:
        """Yield the inputs; None: there is nothing more at the moment."""
        try:
            self._notices = Inotify()
        except OSError as error:
            raise JobError(f"{self._folder}: it cannot be watched: {error.strerror}") from None
        try:
            self._watch_all("")
            yield from below_folder(self._folder)
            yield _IDLE
            while not self._is_stopped():
                for event in self._notices.read():
                    yield from self._on_event(event)
                yield _IDLE
        finally:
            self._notices.close()

    def _is_stopped(self) -> bool:
        """Wait for notices; True: the end was asked for."""
        poll = select.poll()
        for handle in (self._notices.fileno(), self._stop):
            poll.register(handle, select.POLLIN)
        return any(handle == self._stop for handle, _ in poll.poll())

    def _on_event(self, event: FolderEvent) -> Iterator[Found]:
        if event.mask & OVERFLOW:  # the kernel has dropped notices: look at everything again
            self._watch_all("")
            yield from below_folder(self._folder)
            return
        if event.mask & IGNORED:
            self._paths.pop(event.watch, None)
            return
        folder = self._paths.get(event.watch)
        if folder is None or event.name.startswith("."):
            return
        path = f"{folder}/{event.name}" if folder else event.name
        if event.mask & IS_FOLDER:
            self._watch_all(path)
            yield from below_folder(self._folder, path)
        elif event.mask & (CLOSE_WRITE | MOVED_TO):
            found = named(self._folder, path)
            if not isinstance(found, InputFile) or os.path.isfile(found.file):
                yield found

    def _watch_all(self, start: str) -> None:
        """Watch a folder and those below it, before they are listed: what appears meanwhile is noticed."""
        full = os.path.join(self._folder, start)
        try:
            self._paths[self._notices.add(full, _MASK)] = start
            with os.scandir(full) as entries:
                folders = [
                    each.name
                    for each in entries
                    if not each.name.startswith(".") and each.is_dir(follow_symlinks=False)
                ]
        except FileNotFoundError:
            if not start:
                raise JobError(
                    f"{self._folder}: there is no such folder", "name a folder to follow"
                ) from None
            return
        except OSError as error:
            raise JobError(
                f"{full}: it cannot be watched: {error.strerror}",
                "follow a folder with fewer folders in it, or raise fs.inotify.max_user_watches",
            ) from None
        for name in folders:
            self._watch_all(f"{start}/{name}" if start else name)
