"""The lock of a background process: a living holder keeps it; one that ends leaves no job without one."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from threading import Timer

from fairlead.local.background.lock import ProcessLock

LIMIT = 300.0


def test_a_living_holder_is_believed_at_once(tmp_path: Path) -> None:
    holder = ProcessLock.take(str(tmp_path / "lock"))
    assert holder is not None
    holder.name_holder()
    assert ProcessLock.take(str(tmp_path / "lock"), patience=LIMIT) is None


def test_a_holder_without_a_name_is_waited_for(tmp_path: Path) -> None:
    """A process was killed after it took the lock and before it named itself: it releases it soon."""
    former = ProcessLock.take(str(tmp_path / "lock"))
    assert former is not None
    in_child(former.name_holder)
    former.close()
    killed = ProcessLock.take(str(tmp_path / "lock"))
    assert killed is not None
    end = Timer(0.05, killed.close)
    end.start()
    assert ProcessLock.take(str(tmp_path / "lock"), patience=LIMIT) is not None
    end.join()


def test_a_killed_holder_is_waited_for(tmp_path: Path) -> None:
    for _ in range(20):
        reader, writer = os.pipe()

        def hold(writer: int = writer) -> None:
            lock = ProcessLock.take(str(tmp_path / "lock"), patience=LIMIT)
            assert lock is not None
            lock.name_holder()
            os.write(writer, b"x")
            signal.pause()

        pid = os.fork()
        if pid == 0:
            hold()
            os._exit(1)
        os.read(reader, 1)
        os.kill(pid, signal.SIGKILL)
        lock = ProcessLock.take(str(tmp_path / "lock"), patience=LIMIT)
        os.waitpid(pid, 0)
        os.close(reader)
        os.close(writer)
        assert lock is not None
        lock.close()


def in_child(action: Callable[[], object]) -> None:
    """Run a function in a process of its own, which has ended then."""
    pid = os.fork()
    if pid == 0:
        action()
        os._exit(0)
    os.waitpid(pid, 0)
