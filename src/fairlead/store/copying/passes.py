"""The passes of a copy: the first beside programs that write, the last when none does.

A pass makes the target what the source is, and never touches the source. A copy that was interrupted goes on:
what is there with the same size and time is not copied again, and the last pass compares every byte.
"""

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from fairlead.errors import StoreCopyError
from fairlead.store.copying import entries
from fairlead.store.copying.entries import STAGING
from fairlead.store.copying.listing import FolderListing, list_folder
from fairlead.units import Bytes, format_quantity

_ROUNDS: Final = 5
"""Rounds of the last pass: a frozen store still notes when it saw a device."""


@dataclass(frozen=True, slots=True)
class CopyResult:
    """What a pass has done."""

    files: int
    size: Bytes
    copied: int
    removed: int
    left_out: int
    """Sockets, pipes and devices."""
    is_verified: bool = False
    """Whether every file of both sides was read, and is the same."""


@dataclass(frozen=True, slots=True)
class CopyJob:
    """A source, and the target that becomes the same."""

    source: str
    target: str
    capacity: Bytes | None = None
    """How much the target may hold; None: as much as its file system."""

    def first_pass(self) -> CopyResult:
        """Copy what is there; what changes meanwhile is for a later pass."""
        listing = self._list()
        copied, removed = self._sync(listing, lambda path: self._looks_same(path, listing))
        return self._result(listing, copied, removed)

    def last_pass(self) -> CopyResult:
        """Copy what has changed, and compare all; StoreCopyError where the two never become the same."""
        first = self.first_pass()
        copied, removed = first.copied, first.removed
        for _ in range(_ROUNDS):
            before = self._list()
            changed, gone = self._sync(before, lambda path, now=before: self._is_same(path, now))  # type: ignore[misc]
            copied, removed = copied + changed, removed + gone
            if not changed and not gone and _same_listing(before, self._list()):
                return self._result(before, copied, removed, is_verified=True)
        raise StoreCopyError(
            f"{self.source} changes although writes are frozen",
            "end the program that writes there; try again",
        )

    def _list(self) -> FolderListing:
        listing = list_folder(self.source)
        if self.capacity is not None and listing.size > self.capacity:
            text = f"{format_quantity(listing.size)} do not fit into {format_quantity(self.capacity)}"
            raise StoreCopyError(text, "ask for a larger size, or remove files")
        return listing

    def _sync(self, listing: FolderListing, is_same: Callable[[str], bool]) -> tuple[int, int]:
        """Make the target what a listing says; return how much was copied, and removed."""
        staging = os.path.join(self.target, STAGING)
        try:
            entries.make_folder(staging)
            removed = self._remove_others(listing)
            copied = self._copy_all(listing, staging, is_same)
            self._finish_folders(listing)
            entries.remove(staging)
            self._sync_root()
        except OSError as error:
            raise entries.explain_full(error, self.target) or _failed(self.target, error) from None
        return copied, removed

    def _remove_others(self, listing: FolderListing) -> int:
        others = [path for path in list_folder(self.target, STAGING).entries if path not in listing.entries]
        for path in others:
            parent = os.path.join(self.target, os.path.dirname(path))
            if os.path.isdir(parent):
                os.chmod(parent, stat.S_IMODE(os.lstat(parent).st_mode) | 0o700)
            entries.remove(os.path.join(self.target, path))
        return len(others)

    def _copy_all(self, listing: FolderListing, staging: str, is_same: Callable[[str], bool]) -> int:
        copied, first_names = 0, dict[tuple[int, int], str]()
        for path, status in listing.entries.items():
            source, target = os.path.join(self.source, path), os.path.join(self.target, path)
            if stat.S_ISDIR(status.st_mode):
                entries.make_folder(target)
                continue
            first = first_names.setdefault((status.st_dev, status.st_ino), target)
            with suppress(FileNotFoundError):  # removed meanwhile: the next listing says so
                if first != target and os.path.lexists(first):
                    if not _is_one_file(first, target):
                        entries.join_names(first, target)
                        copied += 1
                elif not is_same(path):
                    copy = entries.copy_link if stat.S_ISLNK(status.st_mode) else entries.copy_file
                    copy(source, target, staging)
                    copied += 1
        return copied

    def _finish_folders(self, listing: FolderListing) -> None:
        for path, status in reversed(listing.entries.items()):
            if stat.S_ISDIR(status.st_mode):
                with suppress(FileNotFoundError):
                    entries.finish_folder(os.path.join(self.source, path), os.path.join(self.target, path))

    def _sync_root(self) -> None:
        handle = os.open(self.target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def _looks_same(self, path: str, listing: FolderListing) -> bool:
        """Return whether the target has it already, by kind, size, time and mode."""
        try:
            there = os.lstat(os.path.join(self.target, path))
        except (FileNotFoundError, NotADirectoryError):
            return False
        here = listing.entries[path]
        if stat.S_ISLNK(here.st_mode) and stat.S_ISLNK(there.st_mode):
            return os.readlink(os.path.join(self.source, path)) == os.readlink(
                os.path.join(self.target, path)
            )
        if there.st_nlink > here.st_nlink and stat.S_ISREG(here.st_mode):
            return False  # names that were one file are several now
        return _looks(here) == _looks(there)

    def _is_same(self, path: str, listing: FolderListing) -> bool:
        """Return whether both sides have the same bytes and attributes."""
        source, target = os.path.join(self.source, path), os.path.join(self.target, path)
        if not self._looks_same(path, listing):
            return False
        if stat.S_ISLNK(listing.entries[path].st_mode):
            return True
        here, there = entries.attributes_of(source), entries.attributes_of(target)
        # A target without attributes has none of them, and a store computes digests then.
        same = here == there or not there
        return same and entries.digest_of(source) == entries.digest_of(target)

    def _result(
        self, listing: FolderListing, copied: int, removed: int, *, is_verified: bool = False
    ) -> CopyResult:
        return CopyResult(
            listing.files, Bytes(listing.size), copied, removed, len(listing.left_out), is_verified
        )


def _looks(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_mode, status.st_size, status.st_mtime_ns


def _same_listing(before: FolderListing, after: FolderListing) -> bool:
    return _identities(before) == _identities(after)


def _identities(listing: FolderListing) -> dict[str, tuple[int, ...]]:
    """Return what changes with every change: ctime cannot be set by programs."""
    return {
        path: (each.st_ino, each.st_mode, each.st_size, each.st_mtime_ns, each.st_ctime_ns)
        for path, each in listing.entries.items()
    }


def _is_one_file(first: str, second: str) -> bool:
    try:
        return os.path.samestat(os.lstat(first), os.lstat(second))
    except FileNotFoundError:
        return False


def _failed(target: str, error: OSError) -> StoreCopyError:
    where = error.filename or target
    return StoreCopyError(f"{where}: {error.strerror}", "look at the volume; then try again")
