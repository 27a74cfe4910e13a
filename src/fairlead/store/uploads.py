"""Uploads: staged beside the store's files, verified, on the disk, and only then under their name."""

import hashlib
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
from fairlead.store.jail import FileTarget
from fairlead.store.refusal import RefusedError


class SpaceReservation(Protocol):
    """Space that is kept for an upload."""

    def extend(self, total: int) -> None:
        """Keep this much in all; RefusedError where there is no room."""


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
    size: int
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
        self._commit = threading.Lock()
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
        path = f"{self.folder}/{_PREFIX}{secrets.token_hex(12)}"
        handle = self._disk.create(path)
        try:
            size, digests = self._copy(body, handle, expected, reservation)
            wrong = expected.differs(digests)
            if wrong is not None:
                raise RefusedError(
                    400, f"the {wrong} digest of what arrived is not the stated one: send it again"
                )
            store_digest(handle, digests["sha-256"])
            self.sync_file(handle)
        except BaseException:
            self.discard(Staged(path, handle, 0, {}))
            raise
        return Staged(path, handle, size, digests)

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
    ) -> tuple[int, Mapping[str, bytes]]:
        hashes = {"sha-256": hashlib.sha256()}
        if expected.sha512:
            hashes["sha-512"] = hashlib.sha512()
        if body.length is not None:
            reservation.extend(body.length)
        size, buffer = 0, _buffer_for(body.length)
        while count := body.receive(buffer):
            size += count
            if body.length is None:
                reservation.extend(-(-size // _STEP) * _STEP)
            self._disk.write(handle, buffer[:count])
            for each in hashes.values():
                each.update(buffer[:count])
        if body.length is not None and size != body.length:
            raise ConnectionError(f"{size} of {body.length} bytes arrived")
        return size, {name: each.digest() for name, each in hashes.items()}

    def commit(
        self, staged: Staged, place: FileTarget, check: Callable[[], None], *, exclusive: bool = False
    ) -> os.stat_result:
        """Give a staged file its name; `check` raises if that must not be, and nothing comes between the two.

        `exclusive`: only where nothing has the name, which other programs cannot outrun either.
        """
        try:
            with self._commit:
                check()
                _keep_mode(staged.handle, place)
                self._name(staged, place, exclusive=exclusive)
            status = os.fstat(staged.handle)
        except BaseException:
            self.discard(staged)
            raise
        os.close(staged.handle)
        self.sync_folder(place.folder)
        return status

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
            self._disk.sync(folder)

    def discard(self, staged: Staged) -> None:
        """Remove a staged file."""
        os.close(staged.handle)
        self._disk.remove(staged.path)


def _keep_mode(handle: int, place: FileTarget) -> None:
    """Give a file the mode of the one that it replaces: a program that another pod runs stays one."""
    with suppress(OSError):
        status = os.lstat(place.name, dir_fd=place.folder)
        if stat.S_ISREG(status.st_mode) and stat.S_IMODE(status.st_mode) != stat.S_IMODE(
            os.fstat(handle).st_mode
        ):
            os.fchmod(handle, stat.S_IMODE(status.st_mode) & 0o777)


_PREFIX: Final = "upload-"
PART: Final = "part-"
"""What the names of files begin with that are received in parts."""
_STEP: Final = 1 << 20
"""Bytes by which a reservation grows where the length is not known."""


def _buffer_for(length: int | None) -> memoryview:
    return memoryview(bytearray(PIECE if length is None else max(1, min(PIECE, length))))
