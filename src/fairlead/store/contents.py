"""The files of a store and what may be done with them: one object that requests and DAV resources share."""

import os
import secrets
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from fairlead.access import AccessOp
from fairlead.store.conditions import Version, version_of
from fairlead.store.digests import ExpectedDigests, stored_digest
from fairlead.store.freeze import WriteFreeze
from fairlead.store.jail import Entry, FileTarget, Jail
from fairlead.store.quota import Account, size_below
from fairlead.store.trace import AccessTrace
from fairlead.store.uploads import Check, RequestBody, Staged, Staging

_TRASH: Final = "trash"


@dataclass(frozen=True, slots=True)
class FileBody:
    """A file of the store as a body: what COPY receives."""

    handle: int
    length: int | None

    def receive(self, buffer: memoryview) -> int:
        """Read some bytes."""
        return os.readv(self.handle, [buffer])


@dataclass(frozen=True, slots=True)
class Contents:
    """A store's folder, with its jail, staging and accounts."""

    jail: Jail
    staging: Staging
    account: Account
    freeze: WriteFreeze
    trace: AccessTrace

    def prepare(self) -> None:
        """Remove what an earlier process left in the store's own folder."""
        os.makedirs(f"{self.jail.own}/{_TRASH}", mode=0o700, exist_ok=True)
        self.staging.clear()
        for name in os.listdir(f"{self.jail.own}/{_TRASH}"):
            self._empty(f"{self.jail.own}/{_TRASH}/{name}")

    def version(self, entry: Entry | None) -> Version | None:
        """Return the version of a file; None where there is none, or a folder."""
        if entry is None or entry.is_folder:
            return None
        return file_version(entry.real, entry.status)

    def upload(
        self,
        path: str,
        place: FileTarget,
        body: RequestBody,
        expected: ExpectedDigests,
        check: Check,
        *,
        exclusive: bool = False,
    ) -> Staged:
        """Receive a body and give it its name; `check` raises if it must not have it by then.

        `exclusive`: only where nothing has the name, by then as well.
        """
        with self.account.reserving(lambda: self._freed(place, place.status())) as reservation:
            staged = self.staging.receive(body, expected, reservation)
            self.name(path, place, staged, check, exclusive=exclusive)
            return staged

    def name(
        self,
        path: str,
        place: FileTarget,
        staged: Staged,
        check: Check,
        *,
        exclusive: bool = False,
    ) -> None:
        """Give a received file its name, and count it."""
        freed, slow = 0, None

        def check_all(replaced: os.stat_result | None) -> None:
            nonlocal freed, slow
            self.freeze.check()
            check(replaced)
            freed, slow = self._freed(place, replaced), self.jail.slow_file(place)

        self.staging.commit(staged, place, check_all, exclusive=exclusive)
        if slow is not None:
            with suppress(OSError):  # the mover of the tiers was faster
                os.unlink(slow)
        self.account.change(staged.status.st_size - freed)
        self.trace.add(path, staged.status.st_size, AccessOp.WRITE)

    def copy(self, entry: Entry, path: str, check: Check) -> None:
        """Copy a file to a path, whole or not at all."""
        handle = os.open(entry.real, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            with self.jail.place(path) as place:
                body = FileBody(handle, os.fstat(handle).st_size)
                self.upload(path, place, body, ExpectedDigests({}), check)
        finally:
            os.close(handle)

    def move(self, path: str, target: str) -> None:
        """Rename a file or a folder; a file replaces a file."""
        with self.jail.place(path) as place, self.jail.place(target) as new:
            freed, slow = self._freed(new, new.status()), self.jail.slow_file(new)
            os.rename(place.name, new.name, src_dir_fd=place.folder, dst_dir_fd=new.folder)
            self.staging.sync_folder(new.folder)
            self.staging.sync_folder(place.folder)
        if slow is not None:
            with suppress(OSError):
                os.unlink(slow)
        self.account.change(-freed)

    def make_folder(self, path: str) -> None:
        """Make a folder."""
        with self.jail.place(path) as place:
            os.mkdir(place.name, 0o775, dir_fd=place.folder)
            self.staging.sync_folder(place.folder)

    def make_empty(self, path: str) -> None:
        """Make an empty file, which LOCK on a new name must."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with self.jail.place(path) as place:
            os.close(os.open(place.name, flags, 0o664, dir_fd=place.folder))
            self.staging.sync_folder(place.folder)

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that it holds: it is gone at once, or not at all."""
        with self.jail.place(path) as place:
            slow, freed = self.jail.slow_file(place), self._freed(place, place.status())
            status = os.lstat(place.name, dir_fd=place.folder)
            if stat.S_ISDIR(status.st_mode):
                trash = f"{self.jail.own}/{_TRASH}/{secrets.token_hex(12)}"
                os.rename(place.name, trash, src_dir_fd=place.folder)
                self.staging.sync_folder(place.folder)
                freed = size_below(trash)
                freed += self._empty(trash)
            else:
                os.unlink(place.name, dir_fd=place.folder)
                self.staging.sync_folder(place.folder)
        if slow is not None:
            with suppress(OSError):
                os.unlink(slow)
        self.account.change(-freed)

    def _empty(self, trash: str) -> int:
        """Remove a folder of the trash; return the bytes of the files on the slow tier that went with it."""
        freed = 0
        for folder, folders, names, handle in os.fwalk(trash) if self.jail.also else ():
            for name in (*folders, *names):
                place = FileTarget(handle, name, folder)
                slow = self.jail.slow_file(place)
                if slow is not None:
                    freed += self._freed(place, place.status())
                    with suppress(OSError):
                        os.unlink(slow)
        shutil.rmtree(trash, ignore_errors=True)
        return freed

    def _freed(self, place: FileTarget, status: os.stat_result | None) -> int:
        """Return the bytes that go when what has a name is replaced or removed."""
        if status is None:
            return 0
        if stat.S_ISLNK(status.st_mode):
            slow = self.jail.slow_file(place)
            with suppress(OSError):
                return os.stat(slow).st_size if slow else 0
            return 0
        return status.st_size if stat.S_ISREG(status.st_mode) else 0


def file_version(file: int | str, status: os.stat_result) -> Version:
    """Return the version of a file, open or by its path."""
    return version_of(status.st_size, status.st_mtime_ns, status.st_ino, stored_digest(file, status))
