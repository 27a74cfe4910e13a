"""ResultPlacer: committed results become files of the store, each whole.

The commit decides which result an input has. Its file follows: it is written again after a crash, from what
the database still holds, until the file system has been synced.
"""

import ctypes
import hashlib
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from fairlead.store.contents import Contents
from fairlead.store.digests import ExpectedDigests, compute_digest, stored_digest
from fairlead.store.disk import PosixDisk
from fairlead.store.jobs.coordinator import SplitCoordinator
from fairlead.store.jobs.records import UnplacedResult
from fairlead.store.refusal import RefusedError, refusal_of
from fairlead.store.uploads import Staging

_BATCH: Final = 128
_IDLE: Final = 30.0
_RETRY: Final = 2.0
_KEPT: Final = 20_000
"""Results whose contents are kept in the database before the file system is synced."""
_KEPT_BYTES: Final = 64 << 20


@dataclass(slots=True)
class _Content:
    """A result as a body."""

    data: bytes
    length: int | None

    def receive(self, buffer: memoryview) -> int:
        """Return a part of it."""
        count = min(len(buffer), len(self.data))
        buffer[:count] = self.data[:count]
        self.data = self.data[count:]
        return count


class ResultPlacer(threading.Thread):
    """A thread that gives results their names, until it is stopped."""

    def __init__(self, coordinator: SplitCoordinator, contents: Contents, say: Callable[[str], None]) -> None:
        super().__init__(name="results", daemon=True)
        self._coordinator = coordinator
        self._contents = contents
        # Results are synced together, much later.
        staging = Staging(contents.staging.folder, PosixDisk(), sync=False)
        self._quick = replace(contents, staging=staging)
        self._say = say
        self._ending = threading.Event()
        self._placed = 0
        """The number of the last result that this process has placed."""
        self._settled = 0
        self._bytes = 0
        self._problem = ""
        self.is_behind = False
        """Whether too much waits for room: no more results are taken."""

    def stop(self) -> None:
        """End the thread; what is not placed is placed by the next process."""
        self._ending.set()
        with self._coordinator.changed:
            self._coordinator.changed.notify_all()
        self.join()

    def run(self) -> None:
        """Place results."""
        while not self._ending.is_set():
            try:
                if self.place_some():
                    continue
                self.settle()
                self.sweep()
                self._problem, self.is_behind = "", False
                with self._coordinator.changed:
                    if not self._ending.is_set() and self.is_done:
                        self._coordinator.changed.wait(_IDLE)
            except (OSError, RefusedError) as error:
                self._report(error)
                with self._coordinator.changed:
                    waiting = self._coordinator.database.waiting_bytes(self._placed)
                self.is_behind = waiting > _KEPT_BYTES
                self._ending.wait(_RETRY)

    @property
    def is_done(self) -> bool:
        """Whether each committed result has its file."""
        return self._coordinator.database.last_number == self._placed

    def place_some(self) -> int:
        """Place the next results; return how many."""
        with self._coordinator.changed:
            rows = self._coordinator.database.unplaced(self._placed, _BATCH)
            if not rows:  # an earlier process has placed those before
                self._placed = self._coordinator.database.last_number
        for row in rows:
            with self._contents.freeze.writing():
                self._place(row)
            self._placed = row.number
            self._bytes += len(row.data or b"")
        if self._placed - self._settled > _KEPT or self._bytes > _KEPT_BYTES:
            self.settle()
        return len(rows)

    def settle(self) -> None:
        """Sync the file system, and forget what is on the disk."""
        if self._placed == self._settled:
            return
        with self._contents.freeze.writing():
            sync_file_system(self._contents.jail.root)
            with self._coordinator.changed:
                self._coordinator.database.settle(self._placed)
            self._settled, self._bytes = self._placed, 0

    def sweep(self) -> None:
        """Remove uploads that jobs which have ended left: results of inputs that had one.

        Nobody commits meanwhile: an upload that is the last result of its job has its name by then.
        """
        with suppress(RefusedError), self._contents.freeze.writing(), self._coordinator.changed:
            if not self.is_done:
                return
            for name in self._coordinator.take_ended():
                with suppress(OSError, RefusedError):
                    if self._contents.jail.entry(f"/jobs/{name}/staged/") is not None:
                        self._contents.remove(f"/jobs/{name}/staged")

    def _place(self, row: UnplacedResult) -> None:
        if self._is_outdated(row):
            self._drop_staged(row)
            return
        target = f"/jobs/{row.job_id}/out/{row.path}"
        try:
            self._make_folders(target)
            if row.data is not None:
                self._write(target, row.data)
            else:
                self._move(row, target)
        except (OSError, RefusedError) as error:
            cause = error if isinstance(error, RefusedError) else refusal_of(error)
            if cause.status >= 500:
                raise
            self._set_aside(row, target, cause.reason)
        if row.input_file:
            with suppress(OSError, RefusedError):
                self._contents.remove(row.input_file)

    def _set_aside(self, row: UnplacedResult, target: str, why: str) -> None:
        """Place a result that cannot have its name: a folder has it, or a file that of its folder."""
        aside = f"/jobs/{row.job_id}/aside/{row.seq}"
        self._say(f"{target}: this result cannot have its name, it is {aside}: {why}")
        with suppress(OSError, RefusedError):
            self._make_folders(aside)
            if row.data is not None:
                self._write(aside, row.data)
            else:
                self._move(row, aside)

    def _write(self, target: str, data: bytes) -> None:
        expected = ExpectedDigests({"sha-256": hashlib.sha256(data).digest()})
        with self._quick.jail.place(target) as place:
            self._quick.upload(target, place, _Content(data, len(data)), expected, lambda _: None)

    def _move(self, row: UnplacedResult, target: str) -> None:
        if self._contents.jail.entry(row.staged) is not None:
            self._quick.move(row.staged, target)
            return
        found = staged_digest(self._contents, target)
        if found is None or found[1] != row.digest:
            self._say(f"{target}: the upload of this result, {row.staged}, is gone")

    def _make_folders(self, path: str) -> None:
        make_folders(self._quick, path)

    def _is_outdated(self, row: UnplacedResult) -> bool:
        """Return whether a later version of the same input has a result: that one has the name."""
        with self._coordinator.changed:
            return self._coordinator.database.has_later(row.job, row.path, row.seq)

    def _drop_staged(self, row: UnplacedResult) -> None:
        if row.staged:
            with suppress(OSError, RefusedError):
                self._contents.remove(row.staged)

    def _report(self, error: OSError | RefusedError) -> None:
        why = error.reason if isinstance(error, RefusedError) else error.strerror
        problem = f"results wait for their files: {why}"
        if problem != self._problem:
            self._say(problem)
        self._problem = problem


def make_folders(contents: Contents, path: str) -> None:
    """Make the folders of a path of the store."""
    parts = path.strip("/").split("/")[:-1]
    if os.path.isdir(contents.jail.file_path("/" + "/".join(parts))):
        return
    for count in range(1, len(parts) + 1):
        with suppress(FileExistsError):
            contents.make_folder("/" + "/".join(parts[:count]))


def staged_digest(contents: Contents, path: str) -> tuple[int, str] | None:
    """Return size and SHA-256 of a file of the store; None where there is none."""
    opened = contents.jail.open_file(path)
    if opened is None:
        return None
    handle, status = opened
    try:
        if os.path.isdir(f"/proc/self/fd/{handle}"):
            return None
        digest = stored_digest(handle, status) or compute_digest(handle)
        return status.st_size, digest.hex()
    finally:
        os.close(handle)


def sync_file_system(folder: str) -> None:
    """Wait until all that was written to the file system of a folder is on the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(handle):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
    finally:
        os.close(handle)
