"""Submitted jobs with real processes: each runs exactly once, whatever is killed."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from fairlead.job import LocalState
from fairlead.local.background.lock import ProcessLock
from fairlead.local.supervisor import early_supervisor
from tests.local.supervisor.desk import Desk, wait_until


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def gate(desk: Desk, name: str) -> tuple[str, Path]:
    """Return a script that reports its start and waits, and the gate that lets it end."""
    path = desk.folder / name
    os.mkfifo(path)
    return f"echo {name} >> {desk.folder}/ran; read line < {path}; exit 3", path


def open_gate(door: Path) -> None:
    """Let the script at a gate go on, once it is there."""

    def opened() -> bool:
        with suppress(OSError):
            handle = os.open(door, os.O_WRONLY | os.O_NONBLOCK)  # fails while no process reads
            os.write(handle, b"\n")
            os.close(handle)
            return True
        return False

    wait_until(opened, f"the reader of {door}")


def kill(pid: int | None) -> None:
    assert pid is not None
    with suppress(ProcessLookupError):  # it ended by itself
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not _lives(pid), "the end of a killed process: it holds its locks until then")


def test_jobs_run_once_and_the_supervisor_ends(desk: Desk) -> None:
    cores = desk.cores()
    jobs = [desk.submit(f"echo {number} >> {desk.folder}/ran", cpus=cores / 2) for number in range(30)]
    ends = [desk.wait(job) for job in jobs]
    assert [(end.state, end.exit_code) for end in ends] == [(LocalState.DONE, 0)] * 30
    assert sorted(map(int, lines(desk.folder / "ran"))) == list(range(30))
    wait_until(lambda: not desk.processes(), "the supervisor to end")


def test_a_supervisor_that_starts_early_waits_for_the_submits(desk: Desk) -> None:
    with early_supervisor(desk.place, desk.environ):
        wait_until(lambda: desk.supervisor() is not None, "the supervisor")
        early = desk.supervisor()
        first, second = (desk.wait(desk.submit("exit 4")) for _ in range(2))
        assert (first.exit_code, second.exit_code) == (4, 4)
        assert desk.supervisor() == early, "it has not ended between two submits"
    wait_until(lambda: not desk.processes(), "the supervisor to end")


def test_a_supervisor_that_starts_early_ends_without_a_submit(desk: Desk) -> None:
    with early_supervisor(desk.place, desk.environ):
        wait_until(lambda: desk.supervisor() is not None, "the supervisor")
    wait_until(lambda: not desk.processes(), "the supervisor to end")
    assert desk.wait(desk.submit("exit 4")).exit_code == 4


@pytest.mark.parametrize("seed", range(2))
def test_a_killed_supervisor_neither_loses_nor_repeats_a_job(desk: Desk, seed: int) -> None:
    randomness = random.Random(seed)
    cores = desk.cores()
    jobs = [
        desk.submit(f"echo {number} >> {desk.folder}/ran; sleep 0.1; exit 5", cores) for number in range(6)
    ]
    kills = 0
    while any(job.state is LocalState.QUEUED for job in desk.ledger.own_jobs()) and kills < 4:
        desk.next_command()
        time.sleep(randomness.uniform(0.0, 0.4))  # during its start, a decision, or the start of a job
        if (pid := desk.supervisor()) is not None:
            kill(pid)
            kills += 1
    desk.next_command()
    assert kills
    assert [desk.wait(job).exit_code for job in jobs] == [5] * 6
    assert sorted(map(int, lines(desk.folder / "ran"))) == list(range(6))


def test_the_end_of_a_job_starts_the_next_supervisor(desk: Desk) -> None:
    cores = desk.cores()
    script, door = gate(desk, "first")
    first, second = (
        desk.submit(script, cpus=cores),
        desk.submit(f"echo second >> {desk.folder}/ran", cpus=cores),
    )
    desk.wait(first, LocalState.RUNNING)
    kill(desk.supervisor())
    open_gate(door)
    assert desk.wait(first).exit_code == 3
    assert desk.wait(second).state is LocalState.DONE
    assert lines(desk.folder / "ran") == ["first", "second"]


def test_a_command_outlives_its_killed_runner_and_is_not_repeated(desk: Desk) -> None:
    script, door = gate(desk, "only")
    job = desk.submit(script)
    running = desk.wait(job, LocalState.RUNNING)
    assert running.runner is not None
    wait_until(lambda: lines(desk.folder / "ran") == ["only"], "the command")
    kill(running.runner.pid)
    assert desk.job(job).state is LocalState.RUNNING
    open_gate(door)
    end = desk.wait(job)
    assert (end.state, end.exit_code) == (LocalState.FAILED, None)
    assert end.reason == "its runner was killed; the exit code is unknown"
    desk.next_command()
    wait_until(lambda: desk.supervisor() is None, "the supervisor to end: no job waits")
    assert lines(desk.folder / "ran") == ["only"]


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_running_job_does_not_hold_the_supervisors_lock(desk: Desk) -> None:
    script, door = gate(desk, "job")
    job = desk.submit(script)
    desk.wait(job, LocalState.RUNNING)
    wait_until(lambda: desk.supervisor() is None, "the supervisor to end: no job waits")
    lock = ProcessLock.take(f"{desk.place.private}/supervisor.lock")
    assert lock is not None
    lock.close()
    open_gate(door)
    assert desk.wait(job).exit_code == 3


def test_the_supervisor_is_the_only_one_and_a_daemon(desk: Desk) -> None:
    script, door = gate(desk, "job")
    first, second = desk.submit(script, cpus=desk.cores()), desk.submit("true", cpus=desk.cores())
    desk.wait(first, LocalState.RUNNING)
    pid = desk.supervisor()
    assert pid is not None
    assert ProcessLock.take(f"{desk.place.private}/supervisor.lock") is None
    command = [sys.executable, "-m", "fairlead.local.supervisor"]
    assert subprocess.run(command, env=desk.environ, timeout=120, check=False).returncode == 0
    assert desk.supervisor() == pid
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert os.getsid(pid) not in (pid, os.getsid(0))
    streams = [os.readlink(f"/proc/{pid}/fd/{number}") for number in range(3)]
    assert streams == ["/dev/null", "/dev/null", f"{desk.place.private}/supervisor.log"]
    os.kill(pid, signal.SIGHUP)
    os.kill(pid, signal.SIGTERM)  # arrives after SIGHUP: had that ended it, the log would not matter
    wait_until(lambda: desk.supervisor() is None, "the supervisor to obey SIGTERM")
    assert desk.job(second).state is LocalState.QUEUED
    desk.next_command()
    open_gate(door)
    assert desk.wait(second).state is LocalState.DONE


def test_a_removed_state_directory_ends_the_supervisor(desk: Desk) -> None:
    script, door = gate(desk, "job")
    first, _ = desk.submit(script, cpus=desk.cores()), desk.submit("true", cpus=desk.cores())
    desk.wait(first, LocalState.RUNNING)
    supervisor = desk.supervisor()
    assert supervisor is not None
    wait_until(lambda: lines(desk.folder / "ran") == ["job"], "the command")
    desk.state.rename(desk.folder / "gone")
    os.kill(supervisor, signal.SIGCHLD)  # wakes it, as the end of a runner does
    moved = desk.folder / "gone" / f"u{os.geteuid()}" / "private"
    wait_until(lambda: "removed or replaced" in (moved / "supervisor.log").read_text(), "its last line")
    open_gate(door)
