"""Group commit of names: one fsync of a folder for all uploads that were named before it began.

A caller whose name was made while an fsync ran cannot rely on that one. It waits for the following one, which
the first of the waiting callers does for all of them.
"""

import os
import threading
from dataclasses import dataclass, field

from fairlead.store.disk import Disk


def _closed() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


@dataclass(eq=False, slots=True)
class FolderRound:
    """One fsync of a folder, which answers all that wait for it."""

    lock: threading.Lock = field(default_factory=_closed)
    """Open once it is done."""
    callers: int = 1
    fault: OSError | None = None

    def wait(self) -> None:
        """Wait until it is done."""
        with self.lock:
            return


@dataclass(eq=False, slots=True)
class FolderRounds:
    """The fsync of a folder that runs, and the one that begins after it."""

    running: FolderRound
    following: FolderRound | None = None


class FolderSync:
    """Syncs folders for several threads."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._lock = threading.Lock()
        self._folders: dict[tuple[int, int], FolderRounds] = {}

    def sync(self, folder: int) -> None:
        """Return when the names that an open folder has now are on the disk; raise what prevents it."""
        status = os.fstat(folder)
        mine = self._take_part((status.st_dev, status.st_ino), folder)
        if mine.fault is not None:
            raise OSError(mine.fault.errno, mine.fault.strerror)

    def rounds(self) -> list[FolderRounds]:
        """Return the fsyncs that run, each with the one that follows it."""
        with self._lock:
            return list(self._folders.values())

    def _take_part(self, key: tuple[int, int], folder: int) -> FolderRound:
        """Do an fsync that begins from now on, or wait for one; return it."""
        with self._lock:
            rounds = self._folders.get(key)
            if rounds is None:
                mine, before = FolderRound(), None
                rounds = self._folders[key] = FolderRounds(mine)
            elif rounds.following is None:
                mine, before = FolderRound(), rounds.running
                rounds.following = mine
            else:
                mine, before = rounds.following, rounds.following
                mine.callers += 1
        if before is not None:
            before.wait()
        if before is not mine:
            self._run(key, rounds, mine, folder)
        return mine

    def _run(self, key: tuple[int, int], rounds: FolderRounds, mine: FolderRound, folder: int) -> None:
        with self._lock:
            # From here on it has begun: names that are made later belong to the next one.
            rounds.running, rounds.following = mine, None
        try:
            self._disk.sync(folder)
        except OSError as fault:
            mine.fault = fault
        finally:
            with self._lock:
                if rounds.following is None:
                    del self._folders[key]
            mine.lock.release()
