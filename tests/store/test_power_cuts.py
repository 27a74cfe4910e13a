"""After a power cut at any step every acknowledged upload is there, whole, in 200 seeded runs."""

import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from fairlead.store.contents import Contents
from fairlead.store.digests import ExpectedDigests
from fairlead.store.freeze import WriteFreeze
from fairlead.store.jail import Jail
from fairlead.store.quota import Account
from fairlead.store.trace import AccessTrace
from fairlead.store.uploads import Staging
from tests.store.power import Acknowledged, RecordingDisk, left_after

RUNS = 200
NAMES = ("a", "b", "c")


@dataclass
class Given:
    """A body that is there already."""

    data: bytes
    length: int | None

    def receive(self, buffer: memoryview) -> int:
        """Return a part of it."""
        piece, self.data = self.data[: min(len(buffer), 3000)], self.data[3000:]
        buffer[: len(piece)] = piece
        return len(piece)


@contextmanager
def recorded(folder: Path, sync: bool) -> Iterator[tuple[Contents, RecordingDisk]]:
    """Yield the contents of a store on a disk that records."""
    jail, disk = Jail(str(folder)), RecordingDisk()
    staging = Staging(f"{jail.own}/staging", disk, sync=sync)
    yield (
        Contents(jail, staging, Account((jail.root,), jail.own, lambda: None), WriteFreeze(), AccessTrace()),
        disk,
    )


def uploads(contents: Contents, disk: RecordingDisk, dice: random.Random) -> None:
    """Upload several files at once, some of them over one another."""

    def upload(name: str, data: bytes, exclusive: bool) -> None:
        with contents.jail.place(f"/{name}") as place:
            body = Given(data, None if len(data) % 2 else len(data))
            contents.upload(f"/{name}", place, body, ExpectedDigests({}), lambda _: None, exclusive=exclusive)
        disk.acknowledge(name, data)

    threads = []
    for number in range(dice.randrange(2, 6)):
        name = f"new-{number}" if dice.random() < 0.3 else dice.choice(NAMES)
        data = dice.randbytes(dice.randrange(9000))
        threads.append(threading.Thread(target=upload, args=(name, data, name.startswith("new"))))
    for thread in threads:
        thread.start()
        if dice.random() < 0.5:
            thread.join()
    for thread in threads:
        thread.join()


def losses(folder: Path, sync: bool, dice: random.Random) -> list[str]:
    """Return what is wrong after power cuts at each step of some uploads."""
    with recorded(folder, sync) as (contents, disk):
        uploads(contents, disk, dice)
    wrong: list[str] = []
    sent: dict[str, set[bytes]] = {}
    for step in disk.steps:
        if isinstance(step, Acknowledged):
            sent.setdefault(step.name, set()).add(step.data)
    for cut in range(len(disk.steps) + 1):
        told = {step.name for step in disk.steps[:cut] if isinstance(step, Acknowledged)}
        left = left_after(disk.steps[:cut], folder, dice)
        wrong += [f"{cut}: {name} is lost" for name in told - left.keys()]
        wrong += [f"{cut}: {name} is torn" for name, data in left.items() if data not in sent[name]]
    return wrong


@pytest.mark.parametrize("tenth", range(10))
def test_a_power_cut_loses_no_acknowledged_upload(tmp_path: Path, tenth: int) -> None:
    for seed in range(tenth, RUNS, 10):
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert losses(folder, True, random.Random(seed)) == [], f"seed {seed}"


def test_without_sync_the_same_cuts_lose_uploads(tmp_path: Path) -> None:
    found = set()
    for seed in range(10):
        folder = tmp_path / str(seed)
        folder.mkdir()
        found |= {line.rpartition(" ")[2] for line in losses(folder, False, random.Random(seed))}
    assert found == {"lost", "torn"}


def test_the_digest_is_on_the_disk_with_the_file(tmp_path: Path) -> None:
    with recorded(tmp_path, True) as (contents, disk), contents.jail.place("/f") as place:
        seen: list[bytes] = []
        sync = disk.sync

        def look(handle: int) -> None:
            if not os.path.isdir(f"/proc/self/fd/{handle}"):
                seen.append(os.getxattr(handle, "user.fairlead.sha256"))
            sync(handle)

        disk.sync = look  # type: ignore[method-assign]  # the disk of this test alone
        contents.upload("/f", place, Given(b"data", 4), ExpectedDigests({}), lambda _: None)
    assert [int.from_bytes(each[:8], "big") for each in seen] == [4]
