"""The quota of a store: bytes in use are counted with each change, and counted again by a walk now and then.

Other programs write in the same folders. A walk finds what they did: every half minute, and before a request
is refused for lack of space.
"""

import glob
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from fairlead.errors import SettingsError
from fairlead.serve.web.reloaded import ReloadedFiles, error_text
from fairlead.store.refusal import RefusedError
from fairlead.store.uploads import PART
from fairlead.units import parse_bytes

_FRESH: Final = 10.0
"""A walk counts as the present this many times as long as it took, when a request would be refused."""

_PAUSE: Final = 0.2
"""Seconds for which a request waits at most for the next walk, before it is refused by the last one."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Bytes that are used and that are free."""

    used: int
    available: int
    quota: int | None


class QuotaFile:
    """The quota of a file, a text such as 10Gi, read again when it changes."""

    def __init__(self, path: str, say: Callable[[str], None]) -> None:
        try:
            self._value = ReloadedFiles((path,), lambda: _read(path), say)
        except (OSError, ValueError, SettingsError) as error:
            raise SettingsError(
                f"the quota file {path} cannot be used: {error_text(error)}", "write an amount such as 10Gi"
            ) from None

    def __call__(self) -> int:
        """Return the quota in bytes."""
        return self._value.current()


class Account:
    """The bytes of a store: used, reserved by uploads in progress, and the most that may be used."""

    def __init__(self, folders: Sequence[str], own: str, quota: Callable[[], int | None]) -> None:
        """Count the files below `folders`, but not those in `own`, the store's own folder."""
        self._folders = folders
        self._own = own
        self._quota = quota
        self._lock = threading.Lock()
        self._walking = threading.Lock()
        self._used = 0
        self._reserved = 0
        self._grown = 0
        """Bytes added while a walk runs, which may have passed them already."""
        self._walked = float("-inf")
        self._took = 0.0
        self.walk()

    @property
    def quota(self) -> int | None:
        """The quota now."""
        return self._quota()

    def usage(self) -> Usage:
        """Return the bytes that are used, and that a new file may take."""
        quota, free = self._quota(), _free(self._folders[0])
        with self._lock:
            room = free if quota is None else max(0, min(free, quota - self._used - self._reserved))
            return Usage(self._used, room, quota)

    @contextmanager
    def reserving(self, replaced: int = 0) -> Iterator["QuotaReservation"]:
        """Yield a reservation for an upload that replaces a file of this size; it ends with the block."""
        reservation = QuotaReservation(self, replaced)
        try:
            yield reservation
        finally:
            with self._lock:
                self._reserved -= reservation.bytes

    def reserve(self, amount: int, replaced: int) -> None:
        """Reserve bytes; RefusedError where the quota or the volume has no room for them."""
        free = _free(self._folders[0])
        if amount > free:
            raise RefusedError(507, f"the volume has {free} bytes left, and {amount} more are needed")
        if self._try(amount, replaced):
            return
        self.walk(_FRESH * self._took)
        if not self._try(amount, replaced):
            usage = self.usage()
            why = f"{usage.used} of {usage.quota} bytes are used, {amount} more needed"
            raise RefusedError(507, f"over the quota: {why}")

    def change(self, amount: int) -> None:
        """Count bytes that were added or, below zero, removed."""
        with self._lock:
            self._used = max(0, self._used + amount)
            self._grown += max(0, amount)

    def walk(self, fresh: float = 0.0) -> float:
        """Count all files again, not within `fresh` seconds of the last time; return how long it took."""
        with self._walking:
            pause = self._walked + fresh - time.monotonic()
            if pause > _PAUSE:
                return 0.0
            time.sleep(max(0.0, pause))
            began = time.monotonic()
            with self._lock:
                self._grown = 0
            # Uploads that are received in parts outlive their requests, and count.
            parts = f"{self._own}/staging/{PART}*"
            used = sum(size_below(folder, self._own) for folder in self._folders)
            used += sum(os.path.getsize(path) for path in glob.glob(parts))
            with self._lock:
                # A file that came meanwhile may be counted twice, until the next walk: never too few.
                self._used = used + self._grown
                self._walked = began
            self._took = time.monotonic() - began
            return self._took

    def _try(self, amount: int, replaced: int) -> bool:
        quota = self._quota()
        with self._lock:
            fits = quota is None or self._used + self._reserved + amount - replaced <= quota
            if fits:
                self._reserved += amount
            return fits


class QuotaReservation:
    """Bytes that are reserved for one upload."""

    def __init__(self, account: Account, replaced: int) -> None:
        self._account = account
        self._replaced = replaced
        self.bytes = 0

    def extend(self, total: int) -> None:
        """Reserve up to this total; RefusedError where there is no room."""
        if total > self.bytes:
            self._account.reserve(total - self.bytes, self._replaced if not self.bytes else 0)
            self.bytes = total


def size_below(folder: str, without: str = "") -> int:
    """Return the bytes of all files in a folder and its folders; links count nothing."""
    total, folders = 0, [folder]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.path != without:
                            folders.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        total += entry.stat(follow_symlinks=False).st_size
        except OSError:  # it was removed meanwhile, or is closed to us
            continue
    return total


def _free(folder: str) -> int:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def _read(path: str) -> int:
    with open(path, encoding="utf-8") as file:
        return int(parse_bytes(file.read(100)))
