"""The program as a process: it answers its group over its socket, and ends its daemons with itself."""

import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairlead.enforcement.client import LimiterClient
from fairlead.enforcement.request import Limit
from fairlead.errors import LimiterError
from fairlead.warden.client import exchange
from tests.limiter.control import processes_below, write_control

NAME = "0f8fad5bd9cb469fa16570867728950e"
LIMIT = Limit(NAME, ("GPU-0f8fad5b-d9cb-469f-a165-70867728950e",), 4096, 25)
PATIENCE = 300.0


@contextmanager
def running(folder: Path, program: str) -> Iterator[Path]:
    """Run the program during the block; return its socket."""
    config = {"folder": str(folder), "group": os.getegid(), "program": program}
    command = [sys.executable, "-m", "fairlead.enforcement", json.dumps(config)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env={"PATH": "/nonexistent"})
    socket, until = folder / "limit.sock", time.monotonic() + PATIENCE
    try:
        while not _answers(socket):
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.01)
        yield socket
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0


def _answers(socket: Path) -> bool:
    """Return whether the program listens: it has a name before that."""
    try:
        LimiterClient(socket).alive()
    except LimiterError:
        return False
    return True


@pytest.fixture
def nook() -> Iterator[Path]:
    """Return a folder with a short name, which fits the path of a socket."""
    with tempfile.TemporaryDirectory(prefix="fl-") as name:
        (Path(name) / "mps").mkdir()
        yield Path(name)


def test_the_agent_starts_lists_and_stops_daemons(nook: Path) -> None:
    program = write_control(nook / "bin")
    with running(nook / "mps", program) as socket:
        assert stat.S_IMODE((nook / "mps").stat().st_mode) == 0o750
        assert stat.S_IMODE(socket.stat().st_mode) == 0o660
        client = LimiterClient(socket)
        client.start(LIMIT)
        assert client.alive() == {NAME: True}
        client.stop(NAME)
        client.stop(NAME)
        assert client.alive() == {}
        client.start(LIMIT)
        with pytest.raises(LimiterError, match="memory: 1 to 16777216 MiB are allowed"):
            client.start(LIMIT._replace(memory=0))
        refused = json.loads(exchange(socket, b"nonsense\n", 10.0, 4096))
        assert refused == {"ok": False, "error": "the request is not JSON"}
    assert processes_below(str(nook)) == []
    with pytest.raises(LimiterError, match="cannot be reached"):
        LimiterClient(nook / "mps" / "limit.sock").alive()
    with running(nook / "mps", program) as socket:
        assert LimiterClient(socket).alive() == {NAME: True}, "the daemon of the earlier program is back"
    assert processes_below(str(nook)) == []


def test_without_nvidias_program_a_limit_is_refused_with_the_reason(nook: Path) -> None:
    with running(nook / "mps", str(nook / "none")) as socket:
        with pytest.raises(LimiterError, match="none: No such file"):
            LimiterClient(socket).start(LIMIT)
        LimiterClient(socket).stop(NAME)
        assert LimiterClient(socket).alive() == {}
