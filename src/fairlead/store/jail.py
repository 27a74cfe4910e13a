"""The jail: which file a path means, checked on the file that was opened, after every link was followed.

A check of a path before it is opened could be outrun by another program that swaps a folder for a link. So
the kernel resolves the path first, and the check asks where the opened descriptor is.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from fairlead.store.paths import RESERVED, checked
from fairlead.store.refusal import RefusedError

_GONE: Final = " (deleted)"


@dataclass(frozen=True, slots=True)
class Entry:
    """What a path of the store means now."""

    real: str
    """Where it is, with all links followed."""
    status: os.stat_result

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return stat.S_ISDIR(self.status.st_mode)


@dataclass(frozen=True, slots=True)
class FileTarget:
    """A name in an open folder: where a file is made, replaced or removed."""

    folder: int
    """The folder's descriptor; calls that name it cannot be led elsewhere."""
    name: str
    folder_path: str

    @property
    def path(self) -> str:
        """The path by which the folder was found."""
        return f"{self.folder_path}/{self.name}"

    def status(self) -> os.stat_result | None:
        """Return the status of what has the name now, a link as such; None where nothing has it."""
        try:
            return os.lstat(self.name, dir_fd=self.folder)
        except FileNotFoundError:
            return None


class Jail:
    """The root of a store, and folders to which links in it may lead."""

    def __init__(self, root: str, also: Sequence[str] = ()) -> None:
        self.root = os.path.realpath(root)
        self.own = f"{self.root}/{RESERVED}"
        """The store's own folder."""
        self.also = tuple(os.path.realpath(each) for each in also)

    def file_path(self, path: str) -> str:
        """Return the file path of a path of the store, with no link followed."""
        return self.root + checked(path).rstrip("/")

    def entry(self, path: str) -> Entry | None:
        """Return what a path means; None where there is nothing."""
        file_path = self.file_path(path)
        try:
            handle = os.open(file_path, os.O_PATH | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            status = os.fstat(handle)
            real = self._checked(handle, path)
        finally:
            os.close(handle)
        if real.endswith(_GONE) and not os.path.lexists(file_path):
            return None
        return Entry(real, status) if _is_plain(status) else None

    def entry_at(self, place: FileTarget, status: os.stat_result | None, path: str) -> Entry | None:
        """Return what a name in an open folder means, by its status; a path is resolved only for a link."""
        if status is None:
            return None
        if stat.S_ISLNK(status.st_mode):
            return self.entry(path)
        return Entry(f"/proc/self/fd/{place.folder}/{place.name}", status) if _is_plain(status) else None

    def is_visible(self, folder: str, entry: "os.DirEntry[str]") -> bool:
        """Return whether an entry of a folder is listed: plain files, folders, and links that stay inside."""
        if entry.is_symlink():
            real = os.path.realpath(f"{folder}/{entry.name}")
            return self._is_inside(real) and os.path.exists(real)
        if f"{folder}/{entry.name}" == self.own or entry.name != _printable(entry.name):
            return False
        return entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)

    def open_file(self, path: str) -> tuple[int, os.stat_result] | None:
        """Open a file to read; None where there is nothing. The caller closes it."""
        try:
            # A pipe that nobody writes to must not block.
            handle = os.open(self.file_path(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            self._checked(handle, path)
            status = os.fstat(handle)
        except BaseException:
            os.close(handle)
            raise
        if not _is_plain(status):
            os.close(handle)
            return None
        return handle, status

    @contextmanager
    def place(self, path: str) -> Iterator[FileTarget]:
        """Open the folder of a path, in which its name may be made, replaced or removed."""
        folder_path, _, name = self.file_path(path).rpartition("/")
        if not name or f"{folder_path}/{name}" == self.root:
            raise RefusedError(403, "the root of the store cannot be replaced or removed")
        if len(name.encode()) > 255:
            raise RefusedError(414, "this name is longer than 255 bytes")
        handle = os.open(folder_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            real = self._checked(handle, path)
            if f"{real}/{name}" == self.own:
                raise _outside(path)
            yield FileTarget(handle, name, folder_path)
        finally:
            os.close(handle)

    def slow_file(self, place: FileTarget) -> str | None:
        """Return the file in one of the further folders to which the place's link leads; None without one."""
        if not self.also:
            return None
        try:
            os.readlink(place.name, dir_fd=place.folder)
        except OSError:
            return None
        real = os.path.realpath(f"/proc/self/fd/{place.folder}/{place.name}")
        return real if any(_is_below(real, folder) for folder in self.also) else None

    def _checked(self, handle: int, path: str) -> str:
        real = os.readlink(f"/proc/self/fd/{handle}")
        if not self._is_inside(real.removesuffix(_GONE)):
            raise _outside(path)
        return real

    def _is_inside(self, real: str) -> bool:
        if real == self.own or _is_below(real, self.own):
            return False
        return real == self.root or any(_is_below(real, folder) for folder in (self.root, *self.also))


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _is_plain(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)


def _printable(name: str) -> str:
    """Return a name as a client could send it back: one that is not UTF-8 cannot be."""
    return name.encode("utf-8", "replace").decode("utf-8")


def _outside(path: str) -> RefusedError:
    return RefusedError(403, f"{path}: a link leads out of the store")
