"""The status of runs on sockets: found by their user alone, and nothing of a killed run confuses."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.pipeline.observe.runs import RunPublisher, RunSocket, find_runs, peer_user

KILLED = """
import os, signal, sys
from fairlead.pipeline.observe.runs import RunPublisher
publisher = RunPublisher({"XDG_RUNTIME_DIR": sys.argv[1]}).__enter__()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose runtime directory has a path that is too long for a socket."""
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    return {"XDG_RUNTIME_DIR": str(folder)}


def names(environ: dict[str, str]) -> list[str]:
    """Return everything in the folder of the runs."""
    return os.listdir(Path(environ["XDG_RUNTIME_DIR"]) / "fairlead-pipelines")


def own_runs(environ: dict[str, str]) -> list[str]:
    """Return the runs of this test: other tests of the same user may have runs elsewhere."""
    return [status["pipeline"] for _, status in find_runs(environ) if status["file"] == __file__]


def status(name: str, seconds: float) -> dict[str, object]:
    """Return what a reader needs of a status."""
    return {"pipeline": name, "file": __file__, "seconds": seconds}


def test_a_run_is_found_as_long_as_it_lasts(environ: dict[str, str]) -> None:
    with RunPublisher(environ) as first, RunPublisher(environ) as second:
        assert own_runs(environ) == [], "no status yet"
        first.update(status("young", 1.0))
        second.update(status("old", 9.0))
        assert own_runs(environ) == ["old", "young"]
        (run,) = [run for run, each in find_runs(environ) if each["pipeline"] == "old"]
        second.update(status("old", 10.0))
        assert run.read() == status("old", 10.0)
        mode = os.stat(Path(environ["XDG_RUNTIME_DIR"]) / "fairlead-pipelines").st_mode
        assert mode & 0o777 == 0o700
    assert run.read() is None
    assert names(environ) == []


def test_what_a_killed_run_leaves_is_removed_by_the_next_reader(environ: dict[str, str]) -> None:
    subprocess.run([sys.executable, "-c", KILLED, environ["XDG_RUNTIME_DIR"]], check=False, timeout=60)
    assert len(names(environ)) == 1
    assert own_runs(environ) == []
    assert names(environ) == []


def test_a_folder_that_others_can_use_is_not_used(environ: dict[str, str]) -> None:
    folder = Path(environ["XDG_RUNTIME_DIR"]) / "fairlead-pipelines"
    folder.mkdir()
    folder.chmod(0o755)
    with RunPublisher(environ) as publisher:
        publisher.update(status("p", 1.0))
        assert names(environ) == []
        assert RunSocket(str(folder), "1").read() is None


def test_the_kernel_names_the_user_at_the_other_end() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert peer_user(ours) == os.geteuid()
