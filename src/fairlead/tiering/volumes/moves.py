"""Moves of files between the volumes: copy, verify, switch. A reader never waits, and a writer wins.

At every moment each file is whole below its path, for programs and after a crash. What is prepared or waits
lies in the mover's own folder, in a folder named after the file, below a name that says what was copied:
that is all that a start after a crash needs (`unfinished.py`).
"""

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from fairlead.tiering.volumes.copying import DroppedMove, copy_file, copy_folders, digest_of
from fairlead.tiering.volumes.lease import ReadLease, lease_refusal
from fairlead.tiering.volumes.pair import FileIdentity, VolumePair, Where, lstat
from fairlead.tiering.volumes.rename import pinned, remove_empty, switch, sync_folder
from fairlead.tiering.volumes.unfinished import entries, settle_incoming, settle_outgoing

SETTLE: Final = 1.0
"""Seconds: a file that was changed less than this ago stays where it is, and a demoted file is kept as long
for a writer that had found it before the switch."""
_NEW: Final = "new"
_MOVED: Final = "it was moved a moment ago"
_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True, slots=True)
class MoveResult:
    """What became of a move."""

    reason: str = ""
    """Why it was given up; empty: it was done."""
    copied: int = 0
    is_full: bool = False
    """The volume had no room for it."""

    @property
    def done(self) -> bool:
        """Whether the file is on the other volume now."""
        return not self.reason


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A file that was switched, and whose old inode is watched for a late writer."""

    key: str
    entry: str
    due: float


def _nothing() -> None:
    pass


class FileMover:
    """Moves one file at a time between the volumes of a pair."""

    def __init__(
        self,
        pair: VolumePair,
        *,
        settle: float = SETTLE,
        each_piece: Callable[[], None] = _nothing,
        opened: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`each_piece` runs after each piece of a copy; `opened` hears of every path that is read."""
        self._pair = pair
        self._settle = settle
        self._each_piece = each_piece
        self._opened = opened
        self._unsettled: list[Unsettled] = []
        self._copies: dict[str, tuple[FileIdentity, int]] = {}
        """Of promoted files: what they were, with the time of change of their inode."""
        self._number = 0

    def promote(self, key: str) -> MoveResult:
        """Move a file to the fast volume; the slow one keeps its copy."""
        slow = self._pair.slow_path(key)
        if self._pair.where(key) is not Where.SLOW or self.waits(key):
            return MoveResult(_MOVED if self.waits(key) else "it is not on the slow tier")
        with self._dropped_or_done() as results, ExitStack() as stack:
            link = stack.enter_context(pinned(self._pair.path(key)))
            source, before, lease = stack.enter_context(self._leased(slow))
            folder = self._pair.incoming(key)
            staged = f"{folder}/{_NEW}"
            with self._cleared(key, folder):
                _check_room(self._pair.fast, before.st_size)
                copy_file(source, staged, self._looking(source, before, lease))
                entry = f"{folder}/{FileIdentity.of(before, os.lstat(staged).st_ino)}"
                os.rename(staged, entry)
                sync_folder(folder)
                self._switch(entry, key, link, source, before, lease)
                self._remember(key, entry)
            results.append(MoveResult(copied=before.st_size))
        return results[-1]

    def demote(self, key: str) -> MoveResult:
        """Move a file to the slow volume; it is copied only if the slow one has no copy of what it is now."""
        path = self._pair.path(key)
        if self._pair.where(key) is not Where.FAST or self.waits(key):
            return MoveResult(_MOVED if self.waits(key) else "it is not on the fast tier")
        with self._dropped_or_done() as results, self._leased(path) as (source, before, lease):
            copied = 0
            if not self._is_clean(key, before):
                self._copy_to_slow(key, source, before, lease)
                copied = before.st_size
            folder = self._pair.outgoing(key)
            entry = f"{folder}/{FileIdentity.of(before)}"
            with self._cleared(key, folder):
                os.symlink(self._pair.slow_path(key), entry)
                self._switch(entry, key, source, source, before, lease)
            self._copies.pop(key, None)
            self._unsettled.append(Unsettled(key, entry, time.monotonic() + self._settle))
            results.append(MoveResult(copied=copied))
        return results[-1]

    def recover(self) -> list[str]:
        """Finish every move that a crash has interrupted; return what happened, as lines for people."""
        for name in os.listdir(self._pair.staging) if os.path.isdir(self._pair.staging) else ():
            os.unlink(f"{self._pair.staging}/{name}")
        self._unsettled = [Unsettled(key, entry, 0.0) for key, entry in entries(self._pair)]
        return self.settle()

    def settle(self, *, at_once: bool = False) -> list[str]:
        """Finish switches whose time has come; return what happened besides, as lines for people."""
        now = time.monotonic()
        due = [each for each in self._unsettled if at_once or each.due <= now]
        self._unsettled = [each for each in self._unsettled if each not in due]
        return [line for each in due if (line := self._settle_one(each.key, each.entry))]

    def _settle_one(self, key: str, entry: str) -> str:
        incoming = entry.startswith(f"{self._pair.state}/in/")
        line: str | None = None
        with suppress(OSError):  # a program was faster: look again later
            line = (settle_incoming if incoming else settle_outgoing)(self._pair, key, entry, self._opened)
        if line is None:  # or a program writes to it
            self._unsettled.append(Unsettled(key, entry, time.monotonic() + self._settle))
        return line or ""

    def written(self, key: str) -> None:
        """Forget that the slow volume has a copy of a file: a program has written it."""
        self._copies.pop(key, None)

    def waits(self, key: str) -> bool:
        """Return whether a file was moved a moment ago."""
        return any(each.key == key for each in self._unsettled)

    @contextmanager
    def _dropped_or_done(self) -> Iterator[list[MoveResult]]:
        """Turn what makes a move impossible into a result."""
        results: list[MoveResult] = []
        try:
            yield results
        except DroppedMove as error:
            results.append(MoveResult(str(error)))
        except FileNotFoundError:
            results.append(MoveResult("it was deleted or renamed"))
        except OSError as error:
            full = error.errno in _SPACE
            results.append(MoveResult("the volume is full" if full else str(error.strerror), is_full=full))

    @contextmanager
    def _cleared(self, key: str, folder: str) -> Iterator[None]:
        """Make the folder of a move; if the move is given up, remove what it has prepared."""
        os.makedirs(folder, 0o700, exist_ok=True)
        try:
            yield
        except BaseException:
            for name in os.listdir(folder):
                self._settle_one(key, f"{folder}/{name}")
            remove_empty(folder, self._pair.state)
            raise

    @contextmanager
    def _leased(self, path: str) -> Iterator[tuple[int, os.stat_result, ReadLease]]:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            try:
                lease = ReadLease(handle)
            except OSError as error:
                raise DroppedMove(lease_refusal(error)) from None
            try:
                status = os.fstat(handle)
                self._check_fit(status)
                yield handle, status, lease
            finally:
                lease.release()
        finally:
            inode = os.fstat(handle).st_ino
            os.close(handle)
            now = lstat(path)
            if now is not None and now.st_ino == inode:  # else its folder does not hear of the close
                self._opened(path)

    def _check_fit(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise DroppedMove("it is no plain file")
        if status.st_nlink != 1:
            raise DroppedMove("it has several names (hard links)")
        # Also by the time of the inode: a program may still act on a file that it has just renamed.
        if any(0 <= time.time() - each < self._settle for each in (status.st_mtime, status.st_ctime)):
            raise DroppedMove("it was written a moment ago")

    def _looking(self, source: int, before: os.stat_result, lease: ReadLease) -> Callable[[], None]:
        def look() -> None:
            self._each_piece()
            self._check_unchanged(source, before, lease)

        return look

    def _check_unchanged(self, source: int, before: os.stat_result, lease: ReadLease) -> None:
        if lease.is_broken():
            raise DroppedMove("a program opened it for writing")
        now = os.fstat(source)
        if (now.st_size, now.st_mtime_ns, now.st_nlink) != (before.st_size, before.st_mtime_ns, 1):
            raise DroppedMove("it was changed meanwhile")

    def _switch(
        self, entry: str, key: str, expected: int, source: int, before: os.stat_result, lease: ReadLease
    ) -> None:
        self._check_unchanged(source, before, lease)
        path = self._pair.path(key)
        with pinned(entry) as mine:
            if not switch(entry, path, expected):
                raise DroppedMove("a program replaced it")
            # A writer that waits for the lease has found the old inode, and must not write into nothing.
            if lease.is_broken() and switch(entry, path, mine):
                raise DroppedMove("a program opened it for writing")
        sync_folder(os.path.dirname(path))

    def _copy_to_slow(self, key: str, source: int, before: os.stat_result, lease: ReadLease) -> None:
        pair = self._pair
        self._number += 1
        staged = f"{pair.staging}/{self._number}"
        os.makedirs(pair.staging, 0o700, exist_ok=True)
        _check_room(pair.slow, before.st_size)
        try:
            copy_file(source, staged, self._looking(source, before, lease))
            folder = os.path.dirname(key)
            copy_folders(pair.fast, pair.slow, folder)
            os.rename(staged, pair.slow_path(key))
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(staged)
            raise
        sync_folder(os.path.dirname(pair.slow_path(key)))

    def _is_clean(self, key: str, status: os.stat_result) -> bool:
        """Return whether the slow volume has a copy of what a file is now."""
        slow = lstat(self._pair.slow_path(key))
        if slow is None or not stat.S_ISREG(slow.st_mode):
            return False
        identity = FileIdentity.of(status)
        if not identity.has_content_of(slow):
            return False
        if self._copies.get(key) == (identity, status.st_ctime_ns):
            return True
        # It was promoted before this start: equal sizes and times are likely, no proof.
        paths = (self._pair.path(key), self._pair.slow_path(key))
        digests = [digest_of(path, self._each_piece) for path in paths]
        for path in paths:
            self._opened(path)
        return digests[0] == digests[1]

    def _remember(self, key: str, entry: str) -> None:
        status = os.lstat(self._pair.path(key))
        self._copies[key] = FileIdentity.of(status), status.st_ctime_ns
        self._unsettled.append(Unsettled(key, entry, time.monotonic() + self._settle))


def _check_room(folder: str, size: int) -> None:
    room = os.statvfs(folder)
    if room.f_bavail * room.f_frsize < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), folder)
