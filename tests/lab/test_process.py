"""Processes: identified by PID and start time, found by their environment, never confused with another."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.lab.run import process
from fairlead.lab.run.process import Process

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Process]:
    started = process.start(SLEEP, tmp_path / "log", tmp_path, os.environ)
    yield started
    process.kill([started])


def test_a_started_process_is_alive_until_it_is_killed(sleeper: Process) -> None:
    assert process.alive(sleeper)
    assert process.find(sleeper.pid) == sleeper
    assert process.parent(sleeper.pid) == os.getpid()
    assert process.memory(sleeper) > 0
    assert process.kill([sleeper]) == []
    assert not process.alive(sleeper)
    assert process.exit_code(sleeper) == -signal.SIGKILL
    assert process.find(sleeper.pid) is None
    assert process.memory(sleeper) == 0


def test_a_program_may_outlive_the_python_that_started_it(tmp_path: Path) -> None:
    lines = (
        "import os, pathlib, sys",
        "from fairlead.lab.run import process",
        "folder = pathlib.Path(sys.argv[1])",
        f"print(process.start({SLEEP!r}, folder / 'log', folder, os.environ).pid)",
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(lines), str(tmp_path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    left = process.find(int(done.stdout))
    assert left is not None
    process.kill([left])
    assert done.stderr == ""


def test_a_process_with_a_reused_pid_is_not_signalled(sleeper: Process) -> None:
    earlier = Process(sleeper.pid, sleeper.started - 1)
    assert not process.alive(earlier)
    assert not process.send_signal(earlier, signal.SIGKILL)
    assert process.kill([earlier]) == []
    assert process.alive(sleeper)


def test_the_processes_of_a_lab_are_found_by_their_environment(sleeper: Process, tmp_path: Path) -> None:
    assert list(process.processes_of_lab(tmp_path)) == [sleeper]
    assert list(process.processes_of_lab(tmp_path / "other")) == []


def test_a_zombie_is_not_alive(tmp_path: Path) -> None:
    started = process.start(["true"], tmp_path / "log", tmp_path, os.environ)
    until = time.monotonic() + 10
    while process.alive(started) and time.monotonic() < until:
        time.sleep(0.01)
    assert not process.alive(started)
    assert process.exit_code(started) == 0


def test_a_process_lives_until_its_last_thread_has_ended(tmp_path: Path) -> None:
    """The kernel calls it a zombie before: a killed API server whose threads still end keeps its port."""
    lines = (
        "import ctypes, threading, time",
        "threading.Thread(target=time.sleep, args=(60,)).start()",
        "ctypes.CDLL(None).pthread_exit(None)",
    )
    started = process.start([sys.executable, "-c", "\n".join(lines)], tmp_path / "log", tmp_path, os.environ)
    stat = Path(f"/proc/{started.pid}/stat")
    while stat.read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    assert process.alive(started)
    assert process.kill([started]) == []
    assert not process.alive(started)


def test_a_process_name_that_looks_like_stat_fields_is_parsed(tmp_path: Path) -> None:
    odd = tmp_path / ") Z 1"
    odd.symlink_to("/bin/sleep")
    with subprocess.Popen([odd, "60"]) as child:
        while Path(f"/proc/{child.pid}/comm").read_text() != ") Z 1\n":
            time.sleep(0.01)
        odd_process = process.find(child.pid)
        child.kill()
    assert odd_process is not None
    assert odd_process.started > 0


def test_an_unused_pid_has_no_process() -> None:
    assert process.find(2**22 + 1) is None
    assert process.parent(2**22 + 1) is None
    assert not process.send_signal(Process(2**22 + 1, 0), signal.SIGTERM)
