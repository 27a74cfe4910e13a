"""Moves: whole files, their times and modes kept; writers, readers, deletions and renames meanwhile."""

import os
import stat
import threading
import time
from pathlib import Path

import pytest

from fairlead.tiering.volumes.lease import ignore_lease_signals
from fairlead.tiering.volumes.moves import FileMover
from fairlead.tiering.volumes.pair import Where
from fairlead.tiering.volumes.rename import exchange, pinned, switch
from tests.tiering.volumes.pairs import OLD, Volumes

BIG = os.urandom(3 << 20)


@pytest.fixture
def volumes(tmp_path: Path) -> Volumes:
    ignore_lease_signals()
    return Volumes(tmp_path)


def test_a_file_goes_down_and_up(volumes: Volumes) -> None:
    path = volumes.write("a/b.bin", BIG)
    path.chmod(0o640)
    os.setxattr(path, "user.note", b"kept")
    os.utime(path.parent, (OLD, OLD))
    mover = volumes.mover()
    assert mover.demote("a/b.bin").copied == len(BIG)
    assert volumes.pair.where("a/b.bin") is Where.SLOW
    assert volumes.read("a/b.bin") == BIG
    _check_metadata(path)
    assert mover.promote("a/b.bin").reason == "it was moved a moment ago"
    assert mover.settle(at_once=True) == []
    assert volumes.left_over() == []
    assert mover.promote("a/b.bin").done
    assert volumes.pair.where("a/b.bin") is Where.FAST
    assert volumes.read("a/b.bin") == BIG
    _check_metadata(path)
    mover.settle(at_once=True)
    assert mover.demote("a/b.bin").copied == 0, "the slow volume has its copy"
    mover.settle(at_once=True)
    assert volumes.left_over() == []


def _check_metadata(path: Path) -> None:
    status = path.stat()
    assert (stat.S_IMODE(status.st_mode), status.st_mtime) == (0o640, OLD)
    assert os.getxattr(path, "user.note") == b"kept"
    assert path.parent.stat().st_mtime == OLD


def test_a_file_that_was_written_since_is_copied(volumes: Volumes) -> None:
    volumes.on_slow("a", b"one")
    mover = volumes.mover()
    assert mover.promote("a").done
    mover.settle(at_once=True)
    volumes.write("a", b"two", OLD)  # the same size and time as the slow volume's copy
    assert mover.demote("a").copied == 3
    assert volumes.read("a") == b"two"


def test_after_a_start_equal_files_are_compared_and_not_copied(volumes: Volumes) -> None:
    volumes.on_slow("a", BIG)
    assert volumes.mover().promote("a").done
    first = volumes.mover()
    assert first.recover() == []
    assert first.demote("a").copied == 0
    volumes.mover().recover()
    assert volumes.mover().promote("a").done
    volumes.mover().recover()
    volumes.write("a", BIG[:-1] + b"!", OLD)
    assert volumes.mover().demote("a").copied == len(BIG)
    assert volumes.read("a").endswith(b"!")


def test_a_reader_keeps_its_file(volumes: Volumes) -> None:
    volumes.on_slow("a", BIG)
    mover = volumes.mover()
    with (volumes.fast / "a").open("rb") as slow:
        start = slow.read(1000)
        assert mover.promote("a").done
        mover.settle(at_once=True)
        with (volumes.fast / "a").open("rb") as fast:
            assert mover.demote("a").done
            mover.settle(at_once=True)
            assert start + slow.read() == fast.read() == BIG


def test_an_open_writer_wins(volumes: Volumes) -> None:
    volumes.on_slow("a", b"slow")
    volumes.write("b", b"fast")
    mover = volumes.mover()
    for key, move in (("a", mover.promote), ("b", mover.demote)):
        with (volumes.fast / key).open("ab") as file:
            assert move(key).reason == "a program has it open for writing"
            file.write(b"er")
    assert (volumes.read("a"), volumes.read("b")) == (b"slower", b"faster")
    assert volumes.mover(settle=60).demote("b").reason == "it was written a moment ago"
    assert volumes.left_over() == []


@pytest.mark.parametrize("key", ["a", "b"])
def test_a_writer_that_comes_during_a_copy_wins_and_waits_for_a_piece(key: str, tmp_path: Path) -> None:
    ignore_lease_signals()
    volumes = Volumes(tmp_path)
    (volumes.on_slow if key == "a" else volumes.write)(key, BIG)
    pieces: list[int] = []
    opened = threading.Event()

    def write() -> None:
        with (volumes.fast / key).open("r+b") as file:
            opened.set()
            file.write(b"new")

    writer = threading.Thread(target=write)

    def each_piece() -> None:
        pieces.append(1)
        if len(pieces) == 1:
            writer.start()
        elif not opened.is_set():
            time.sleep(0.05)  # the writer may take its time: a later piece meets it

    mover = FileMover(volumes.pair, settle=0.0, each_piece=each_piece)
    result = mover.promote(key) if key == "a" else mover.demote(key)
    writer.join(10)
    while not result.done and result.reason != "a program opened it for writing":
        pytest.fail(result.reason)
    mover.settle(at_once=True)
    assert volumes.read(key) == b"new" + BIG[3:]
    assert volumes.left_over() == []


@pytest.mark.parametrize("up", [True, False])
def test_a_late_writer_of_the_old_inode_loses_nothing(up: bool, volumes: Volumes) -> None:
    (volumes.on_slow if up else volumes.write)("a", b"old")
    mover = volumes.mover()
    old = os.open(volumes.slow / "a" if up else volumes.fast / "a", os.O_PATH)
    assert (mover.promote("a") if up else mover.demote("a")).done
    late = os.open(f"/proc/self/fd/{old}", os.O_WRONLY)  # as if its open had begun before the switch
    os.write(late, b"late")
    assert mover.settle(at_once=True) == [], "it is still open"
    os.close(late)
    os.close(old)
    (line,) = mover.settle(at_once=True)
    assert "it stays" in line
    assert volumes.read("a") == b"late"
    assert volumes.pair.where("a") is (Where.SLOW if up else Where.FAST)
    assert volumes.left_over() == []


def test_two_late_writers_are_both_kept(volumes: Volumes) -> None:
    volumes.on_slow("a", b"old")
    mover = volumes.mover()
    assert mover.promote("a").done
    (volumes.slow / "a").write_bytes(b"on slow")
    (volumes.fast / "a").write_bytes(b"on fast")
    (line,) = mover.settle(at_once=True)
    assert "a.other-1" in line
    assert (volumes.read("a"), volumes.read("a.other-1")) == (b"on fast", b"on slow")


def test_what_is_no_plain_single_file_stays(volumes: Volumes) -> None:
    path = volumes.write("a", b"content")
    os.link(path, volumes.fast / "b")
    mover = volumes.mover()
    assert mover.demote("a").reason == "it has several names (hard links)"
    (volumes.fast / "c").symlink_to("/etc/hostname")
    assert mover.demote("c").reason == "it is not on the fast tier"
    assert mover.promote("c").reason == "it is not on the slow tier"
    assert mover.promote("nothing").reason == "it is not on the slow tier"
    volumes.on_slow("d", b"x")
    (volumes.slow / "d").unlink()
    assert mover.promote("d").reason == "it was deleted or renamed"
    assert volumes.left_over() == []


class Intruder:
    """A program that does something at a chosen step of a switch."""

    def __init__(self, *steps: object) -> None:
        self.steps = list(steps)

    def swap(self, one: str, other: str) -> None:
        step = self.steps.pop(0) if self.steps else None
        if callable(step):
            step()
        exchange(one, other)


def _replacing(path: Path, content: bytes) -> object:
    def replace() -> None:
        new = path.with_name("new")
        new.write_bytes(content)
        new.replace(path)

    return replace


@pytest.mark.parametrize(
    ("steps", "done", "content"),
    [
        ((), True, b"moved"),
        ((b"one",), False, b"one"),
        ((b"one", b"two"), False, b"two"),
        ((b"one", b"two", b"three"), False, b"three"),
    ],
)
def test_a_switch_never_hides_a_programs_newer_file(
    steps: tuple[bytes, ...], done: bool, content: bytes, tmp_path: Path
) -> None:
    path, entry = tmp_path / "path", tmp_path / "entry"
    path.write_bytes(b"old")
    entry.write_bytes(b"moved")
    intruder = Intruder(*(_replacing(path, each) for each in steps))
    with pinned(str(path)) as there:
        assert switch(str(entry), str(path), there, intruder.swap) is done
    assert path.read_bytes() == content


def test_a_switch_gives_nothing_back_to_a_deleted_name(tmp_path: Path) -> None:
    path, entry = tmp_path / "path", tmp_path / "entry"
    path.write_bytes(b"old")
    entry.write_bytes(b"moved")
    intruder = Intruder(_replacing(path, b"one"), path.unlink)
    with pinned(str(path)) as there:
        assert not switch(str(entry), str(path), there, intruder.swap)
    assert not path.exists()
