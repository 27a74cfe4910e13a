"""Group commit of a folder's names: one fsync for all that were named before it began, and for no other."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fairlead.store.disk import PosixDisk
from fairlead.store.folder_sync import FolderSync


@dataclass
class HeldDisk(PosixDisk):
    """A disk whose fsyncs begin at once, and end when the test says so."""

    began: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    may_end: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    count: int = 0
    faults: list[OSError | None] = field(default_factory=list)

    def sync(self, handle: int) -> None:
        """Wait until the test lets it end."""
        del handle
        self.count += 1
        self.began.release()
        self.may_end.acquire()
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            raise fault


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    """Yield an open folder."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield handle
    finally:
        os.close(handle)


class Caller(threading.Thread):
    """Syncs a folder in a thread of its own."""

    def __init__(self, syncs: FolderSync, folder: int) -> None:
        super().__init__()
        self._syncs, self._folder = syncs, folder
        self.fault: OSError | None = None
        self.start()

    def run(self) -> None:
        """Sync."""
        try:
            self._syncs.sync(self._folder)
        except OSError as fault:
            self.fault = fault


def waiting(syncs: FolderSync) -> int:
    """Return how many callers share the fsync that follows the running one."""
    return sum(each.following.callers for each in syncs.rounds() if each.following is not None)


def test_callers_that_come_during_an_fsync_share_the_next_one(tmp_path: Path) -> None:
    disk = HeldDisk()
    syncs = FolderSync(disk)
    with opened(tmp_path) as folder:
        first = Caller(syncs, folder)
        disk.began.acquire()
        later = [Caller(syncs, folder) for _ in range(7)]
        while waiting(syncs) < 7:
            threading.Event().wait(0.001)
        assert disk.count == 1
        disk.may_end.release()
        first.join()
        disk.began.acquire()
        # The second fsync runs: none of those that wait for it has returned, and they began no other.
        assert all(each.is_alive() for each in later)
        disk.may_end.release()
        for each in later:
            each.join()
        assert disk.count == 2
        assert syncs.rounds() == []


def test_a_fault_reaches_all_whose_names_it_concerns(tmp_path: Path) -> None:
    disk = HeldDisk(faults=[None, OSError(5, "Input/output error")])
    syncs = FolderSync(disk)
    with opened(tmp_path) as folder:
        first = Caller(syncs, folder)
        disk.began.acquire()
        later = [Caller(syncs, folder) for _ in range(3)]
        while waiting(syncs) < 3:
            threading.Event().wait(0.001)
        disk.may_end.release(2)
        for each in (first, *later):
            each.join()
    assert first.fault is None
    assert [each.fault and each.fault.errno for each in later] == [5, 5, 5]


def test_folders_are_synced_each_for_itself(tmp_path: Path) -> None:
    disk = HeldDisk()
    syncs = FolderSync(disk)
    (tmp_path / "other").mkdir()
    with opened(tmp_path) as one, opened(tmp_path / "other") as other:
        callers = [Caller(syncs, one), Caller(syncs, other)]
        disk.began.acquire()
        disk.began.acquire()
        disk.may_end.release(2)
        for each in callers:
            each.join()
    assert disk.count == 2


@pytest.mark.parametrize("link", [False, True], ids=["path", "link"])
def test_one_folder_is_known_by_any_path(tmp_path: Path, link: bool) -> None:
    disk = HeldDisk()
    syncs = FolderSync(disk)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with opened(tmp_path / "real") as one, opened(tmp_path / ("link" if link else "real")) as other:
        first = Caller(syncs, one)
        disk.began.acquire()
        second = Caller(syncs, other)
        while waiting(syncs) < 1:
            threading.Event().wait(0.001)
        disk.may_end.release(2)
        first.join()
        second.join()
    assert disk.count == 2
