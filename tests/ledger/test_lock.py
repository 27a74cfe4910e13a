"""The lock: one holder, named after a while; it dies with its holder and survives a fork."""

import fcntl
import os
import signal
from pathlib import Path

import pytest

from fairlead.errors import LedgerError
from fairlead.ledger.lock import DirectoryLock
from tests.ledger.jobs import a_ledger, in_child


def is_free(path: Path) -> bool:
    """Return whether another process can take the lock at once."""

    def take() -> None:
        file = os.open(path, os.O_RDONLY)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    problem = in_child(take)
    assert not problem or "BlockingIOError" in problem
    return not problem


def test_the_lock_is_held_inside_the_block_only(tmp_path: Path) -> None:
    lock = DirectoryLock(str(tmp_path))
    with lock.hold():
        assert lock.held
        assert not is_free(tmp_path)
    assert not lock.held
    assert is_free(tmp_path)
    with pytest.raises(ZeroDivisionError), lock.hold():
        raise ZeroDivisionError
    assert is_free(tmp_path)


def test_a_second_hold_is_an_error_and_keeps_the_first(tmp_path: Path) -> None:
    lock = DirectoryLock(str(tmp_path))
    with lock.hold():
        with pytest.raises(LedgerError, match="holds the lock already"), lock.hold():
            pass
        assert not is_free(tmp_path)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    lock = DirectoryLock(str(tmp_path / "gone"))
    with pytest.raises(LedgerError, match="No such file or directory: the ledger cannot"), lock.hold():
        pass


def test_the_lock_dies_with_its_holder(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        with DirectoryLock(str(tmp_path)).hold():
            os.write(writer, b"held")
            signal.pause()
        os._exit(0)
    assert os.read(reader, 4) == b"held"
    assert not is_free(tmp_path)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert is_free(tmp_path)
    os.close(reader)
    os.close(writer)


def test_a_forked_process_keeps_its_copy_until_it_releases_it(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    state = tmp_path / "state"
    (start, started), (done, written) = os.pipe(), os.pipe()
    with ledger.locked():
        pid = os.fork()
        if not pid:
            os.read(start, 1)
            ledger.release_inherited_lock()
            os.write(written, b"x")
            os.read(start, 1)
            os._exit(0)
    assert not is_free(state), "the parent has left the block, the child has not released"
    os.write(started, b"x")
    os.read(done, 1)
    assert is_free(state)
    with ledger.locked():
        assert not is_free(state)
    os.write(started, b"x")
    os.waitpid(pid, 0)
    for file in (start, started, done, written):
        os.close(file)


def test_a_program_that_is_executed_does_not_inherit_the_lock(tmp_path: Path) -> None:
    lock = DirectoryLock(str(tmp_path))
    reader, writer = os.pipe()
    with lock.hold():
        pid = os.fork()
        if not pid:
            os.dup2(reader, 0)
            os.execv("/bin/sh", ["sh", "-c", "read line"])
    for _ in range(10_000):
        if is_free(tmp_path):  # the child has executed the shell by then, which waits for its line
            break
    else:
        pytest.fail("the shell holds the lock")
    assert os.waitpid(pid, os.WNOHANG) == (0, 0)
    os.close(writer)
    os.waitpid(pid, 0)
    os.close(reader)


def test_a_long_wait_names_the_holder_once(tmp_path: Path) -> None:
    lines: list[str] = []
    (ready, held), (release, go) = os.pipe(), os.pipe()
    pid = os.fork()
    if not pid:
        with DirectoryLock(str(tmp_path)).hold():
            os.write(held, b"x")
            os.read(release, 1)
        os._exit(0)
    os.read(ready, 1)

    def waiting(line: str) -> None:
        lines.append(line)
        os.write(go, b"x")

    with DirectoryLock(str(tmp_path), patience=0.01).hold(waiting):
        os.waitpid(pid, 0)
    (line,) = lines
    assert line.startswith(f"waiting for the lock of {tmp_path}, which ")
    assert f"process {pid} (" in line or "/proc/locks does not show" in line
    with DirectoryLock(str(tmp_path), patience=0.01).hold(waiting):
        assert len(lines) == 1, "a free lock names no holder"
    for file in (ready, held, release, go):
        os.close(file)


def test_a_directory_that_was_replaced_is_locked_instead(tmp_path: Path) -> None:
    """A process that waits for the lock of a directory gets the lock of its successor."""
    path = tmp_path / "state"
    path.mkdir()

    def waiting(line: str) -> None:
        path.rename(tmp_path / "before")
        path.mkdir()
        os.write(go, b"x")

    (ready, held), (release, go) = os.pipe(), os.pipe()
    pid = os.fork()
    if not pid:
        with DirectoryLock(str(path)).hold():
            os.write(held, b"x")
            os.read(release, 1)
        os._exit(0)
    os.read(ready, 1)
    with DirectoryLock(str(path), patience=0.01).hold(waiting):
        assert not is_free(path)
        assert is_free(tmp_path / "before")
    os.waitpid(pid, 0)
    for file in (ready, held, release, go):
        os.close(file)
