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

_WALKS: Final = 3
"""A walk during which files came is followed by another, so often: what it counts twice would stay."""

_LOOK: Final = 1.0
_FREE_PART: Final = 8
"""Within this many seconds uploads may take this part of what the volume has free, before the next look."""

_STEP: Final = 1 << 20
"""Bytes by which a reservation grows where the length of an upload is not known."""


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
        self._free = 0
        """Bytes that uploads may still take before the volume is looked at again."""
        self._looked = self._walked = float("-inf")
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
    def reserving(self, replaced: Callable[[], int] = int) -> Iterator["QuotaReservation"]:
        """Yield a reservation for an upload; it ends with the block.

        `replaced` is called where the quota has room only without the file that the upload replaces.
        """
        reservation = QuotaReservation(self, replaced)
        try:
            yield reservation
        finally:
            with self._lock:
                self._reserved -= reservation.bytes

    def reserve(self, amount: int, replaced: Callable[[], int], need: str) -> None:
        """Reserve bytes; RefusedError, with what the upload needs, where there is no room for them."""
        if self.try_reserve(amount, need) or self._try(amount, replaced()):
            return
        self.walk(_FRESH * self._took)
        if not self._try(amount, replaced()):
            usage = self.usage()
            raise RefusedError(
                507, f"over the quota: {usage.used} of {usage.quota} bytes are used, and {need}"
            )

    def try_reserve(self, amount: int, need: str) -> bool:
        """Reserve bytes if the quota has room for them; RefusedError where the volume has none."""
        self._check_volume(amount, need)
        return self._try(amount)

    def _check_volume(self, amount: int, need: str) -> None:
        """Raise the refusal of what the volume has no room for; many small uploads share one look at it."""
        now = time.monotonic()
        with self._lock:
            if now < self._looked + _LOOK and amount <= self._free:
                self._free -= amount
                return
        free = _free(self._folders[0])
        if amount > free:
            raise RefusedError(507, f"the volume has {free} bytes left, and {need}")
        with self._lock:
            self._looked, self._free = now, free // _FREE_PART

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
            for _ in range(_WALKS):
                if not self._walk(time.monotonic()):
                    break
            self._took = time.monotonic() - began
            return self._took

    def _walk(self, began: float) -> bool:
        """Count all files; return whether one that came meanwhile may be counted twice: never too few."""
        with self._lock:
            self._grown = 0
        # Uploads that are received in parts outlive their requests, and count.
        parts = f"{self._own}/staging/{PART}*"
        used = sum(size_below(folder, self._own) for folder in self._folders)
        used += sum(os.path.getsize(path) for path in glob.glob(parts))
        with self._lock:
            self._used = used + self._grown
            self._walked = began
            return self._grown > 0

    def _try(self, amount: int, replaced: int = 0) -> bool:
        quota = self._quota()
        with self._lock:
            fits = quota is None or self._used + self._reserved + amount - replaced <= quota
            if fits:
                self._reserved += amount
            return fits


class QuotaReservation:
    """Bytes that are reserved for one upload."""

    def __init__(self, account: Account, replaced: Callable[[], int]) -> None:
        self._account = account
        self._replaced = replaced
        self.bytes = 0

    def extend(self, total: int) -> None:
        """Reserve up to this total; RefusedError where there is no room."""
        self._reserve(total, f"{total - self.bytes} more are needed")

    def follow(self, arrived: int) -> None:
        """Reserve for a body of unknown length of which this much has arrived, some of it in advance."""
        if arrived <= self.bytes:
            return
        ahead, need = (
            -(-arrived // _STEP) * _STEP,
            f"{arrived} bytes of an upload of unknown length have arrived",
        )
        if self._account.try_reserve(ahead - self.bytes, need):
            self.bytes = ahead
        else:
            self._reserve(arrived, need)

    def _reserve(self, total: int, need: str) -> None:
        if total > self.bytes:
            self._account.reserve(total - self.bytes, self._replaced, need)
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
