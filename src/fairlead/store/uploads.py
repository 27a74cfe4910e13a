"""Uploads: staged beside the store's files, verified, on the disk, and only then under their name."""

import hashlib
import itertools
import os
import secrets
import stat
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from fairlead.store.digests import PIECE, ExpectedDigests, store_digest
from fairlead.store.disk import Disk
from fairlead.store.folder_sync import FolderSync
from fairlead.store.jail import FileTarget
from fairlead.store.refusal import RefusedError

Check = Callable[[os.stat_result | None], None]
"""Raises what forbids an upload to take its name, by the status of what has that name."""


class SpaceReservation(Protocol):
    """Space that is kept for an upload."""

    def extend(self, total: int) -> None:
        """Keep this much in all; RefusedError where there is no room."""

    def follow(self, arrived: int) -> None:
        """Keep room for what has arrived of a body of unknown length; RefusedError where there is none."""


class RequestBody(Protocol):
    """The body of a request."""

    @property
    def length(self) -> int | None:
        """Its stated length; None where it comes in chunks."""

    def receive(self, buffer: memoryview) -> int:
        """Receive some bytes; 0 at the end. ConnectionError where it ends before it is complete."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A received file that has no name yet."""

    path: str
    handle: int
    status: os.stat_result
    digests: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Appended:
    """What was received of a part."""

    size: int
    fault: OSError | None
    """Why it is not all."""


class Staging:
    """The folder of uploads in progress, and the way of an upload to its name."""

    def __init__(self, folder: str, disk: Disk, *, sync: bool) -> None:
        self.folder = folder
        self._disk = disk
        self._sync = sync
        self._folders = FolderSync(disk)
        self._commits = tuple(threading.Lock() for _ in range(_COMMITS))
        """Uploads of one name take turns; those of different names hardly meet."""
        self._names = itertools.count()
        self._run = secrets.token_hex(6)
        os.makedirs(folder, mode=0o700, exist_ok=True)

    @property
    def is_synced(self) -> bool:
        """Whether an upload is on the disk before it is acknowledged."""
        return self._sync

    def clear(self) -> None:
        """Remove what an earlier process left: uploads that were never acknowledged."""
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.startswith(_PREFIX):
                    self._disk.remove(entry.path)

    def receive(self, body: RequestBody, expected: ExpectedDigests, reservation: SpaceReservation) -> Staged:
        """Receive a body into a staged file, and verify its length and digests; the caller ends it."""
        path = f"{self.folder}/{_PREFIX}{self._run}-{next(self._names)}"
        handle = self._disk.create(path)
        try:
            digests = self._copy(body, handle, expected, reservation)
            wrong = expected.differs(digests)
            if wrong is not None:
                raise RefusedError(
                    400, f"the {wrong} digest of what arrived is not the stated one: send it again"
                )
            status = store_digest(handle, digests["sha-256"])
            self.sync_file(handle)
        except BaseException:
            self.discard(path, handle)
            raise
        return Staged(path, handle, status, digests)

    def append(self, path: str, body: RequestBody, *, new: bool) -> "Appended":
        """Append a body to a file that is received in parts; what arrived before a cut stays."""
        handle = self._disk.create(path) if new else self._disk.reopen(path)
        size, buffer = 0, _buffer_for(body.length)
        try:
            while count := body.receive(buffer):
                self._disk.write(handle, buffer[:count])
                size += count
        except (ConnectionError, TimeoutError) as fault:
            return Appended(size, fault)
        finally:
            os.close(handle)
        return Appended(size, None)

    def sync_file(self, handle: int) -> None:
        """Wait until an open file is on the disk."""
        if self._sync:
            self._disk.sync(handle)

    def _copy(
        self, body: RequestBody, handle: int, expected: ExpectedDigests, reservation: SpaceReservation
    ) -> Mapping[str, bytes]:
        hashes = {"sha-256": hashlib.sha256()}
        if expected.sha512:
            hashes["sha-512"] = hashlib.sha512()
        if body.length is not None:
            reservation.extend(body.length)
        size, buffer = 0, _buffer_for(body.length)
        while count := _filled(body, buffer):
            size += count
            if body.length is None:
                reservation.follow(size)
            self._disk.write(handle, buffer[:count])
            for each in hashes.values():
                each.update(buffer[:count])
        if body.length is not None and size != body.length:
            raise ConnectionError(f"{size} of {body.length} bytes arrived")
        return {name: each.digest() for name, each in hashes.items()}

    def commit(self, staged: Staged, place: FileTarget, check: Check, *, exclusive: bool = False) -> None:
        """Give a staged file its name; `check` raises if that must not be, and nothing comes between the two.

        `exclusive`: only where nothing has the name, which other programs cannot outrun either.
        """
        try:
            with self._commits[hash(place.name) % _COMMITS]:
                replaced = place.status()
                check(replaced)
                _keep_mode(staged, replaced)
                self._name(staged, place, exclusive=exclusive)
        except BaseException:
            self.discard(staged.path, staged.handle)
            raise
        os.close(staged.handle)
        self.sync_folder(place.folder)

    def _name(self, staged: Staged, place: FileTarget, *, exclusive: bool) -> None:
        if not exclusive:
            self._disk.replace(staged.path, place.name, place.folder)
            return
        try:
            self._disk.link_new(staged.path, place.name, place.folder)
        except FileExistsError:
            raise RefusedError(412, "a file of this name exists") from None

    def sync_folder(self, folder: int) -> None:
        """Wait until the names of an open folder are on the disk."""
        if self._sync:
            self._folders.sync(folder)

    def discard(self, path: str, handle: int) -> None:
        """Remove a staged file."""
        os.close(handle)
        self._disk.remove(path)


def _keep_mode(staged: Staged, replaced: os.stat_result | None) -> None:
    """Give a file the mode of the one that it replaces: a program that another pod runs stays one."""
    if replaced is None or not stat.S_ISREG(replaced.st_mode):
        return
    mode = stat.S_IMODE(replaced.st_mode)
    if mode != stat.S_IMODE(staged.status.st_mode):
        with suppress(OSError):
            os.fchmod(staged.handle, mode & 0o777)


def _filled(body: RequestBody, buffer: memoryview) -> int:
    """Receive until the buffer is full, or the body ends; return how many bytes it has."""
    total = 0
    while total < len(buffer) and (count := body.receive(buffer[total:])):
        total += count
    return total


_PREFIX: Final = "upload-"
PART: Final = "part-"
"""What the names of files begin with that are received in parts."""
_COMMITS: Final = 64


def _buffer_for(length: int | None) -> memoryview:
    return memoryview(bytearray(PIECE if length is None else max(1, min(PIECE, length))))
