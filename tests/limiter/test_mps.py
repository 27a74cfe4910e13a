"""MPS: folders, variables, and a daemon that is started, watched and ended."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fairlead.limiter.mps import (
    PROGRAM,
    MpsFolder,
    client_variables,
    control_program,
    daemon_variables,
)
from fairlead.limiter.mps_daemon import MpsDaemon
from fairlead.limiter.process import RunningProcess, find_process
from tests.limiter.control import processes_below, write_control

GIB = 1 << 30
LIMIT = 300.0


def until(arrived: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT
    while not arrived():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_variables_name_the_folder_the_device_and_the_limits() -> None:
    folder = MpsFolder("/run/mps")
    where = {"CUDA_MPS_PIPE_DIRECTORY": "/run/mps/pipe", "CUDA_MPS_LOG_DIRECTORY": "/run/mps/log"}
    assert daemon_variables(folder, "GPU-1") == {**where, "CUDA_VISIBLE_DEVICES": "GPU-1"}
    assert client_variables(folder, None, None) == where
    limits = client_variables(folder, 3 * GIB + 5, 25, devices=2)
    assert limits == {
        **where,
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=3072M,1=3072M",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25",
    }


def test_a_limit_below_a_mebibyte_is_still_a_limit() -> None:
    limits = client_variables(MpsFolder("/run/mps"), 4096, None)
    assert limits["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=1M"


@pytest.mark.parametrize(("length", "fits"), [(83, True), (84, False)])
def test_a_folder_fits_while_its_longest_socket_has_107_bytes(length: int, fits: bool) -> None:
    folder = MpsFolder("/" + (length - 1) * "x")
    assert len(f"{folder.pipe}/control_privileged") == length + 24
    assert folder.is_short is fits


def test_the_program_is_found_in_path(tmp_path: Path) -> None:
    program = write_control(tmp_path)
    assert control_program({"PATH": f"relative::{tmp_path}"}) == program
    os.chmod(program, 0o600)
    assert control_program({"PATH": str(tmp_path)}) != program
    os.unlink(program)
    assert PROGRAM not in (control_program({"PATH": str(tmp_path)}) or "").removesuffix(PROGRAM)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[MpsDaemon]:
    """Return a daemon that is not started; nothing of it outlives the test."""
    with TemporaryDirectory(prefix="mps") as short:  # the paths of sockets are limited
        folder = MpsFolder(short)
        yield MpsDaemon(folder, write_control(tmp_path))
        for pid in processes_below(folder.path):
            if (process := find_process(pid)) is not None:
                process.kill()
        assert wait_for_none(folder)


def wait_for_none(folder: MpsFolder) -> bool:
    until(lambda: not processes_below(folder.path))
    return True


def start(daemon: MpsDaemon) -> RunningProcess:
    assert daemon.start(daemon_variables(daemon.folder, "GPU-1")) == ""
    process = daemon.process()
    assert process is not None
    return process


def connect(daemon: MpsDaemon) -> int:
    """Be a client for a moment, and return the pid of the server."""
    environment = {**os.environ, **client_variables(daemon.folder, None, None)}
    return int(subprocess.check_output([daemon.program, "client"], env=environment))


def test_a_daemon_lives_on_its_own_until_it_quits(daemon: MpsDaemon) -> None:
    assert not daemon.is_alive()
    process = start(daemon)
    assert daemon.pid() == process.pid
    assert Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[1] != str(os.getpid())
    assert os.stat(daemon.folder.pipe).st_mode & 0o777 == 0o700
    assert daemon.servers() == ()
    server = connect(daemon)
    assert daemon.servers() == (server,)
    assert daemon.quit()
    assert not daemon.is_alive()
    assert find_process(server) is None


def test_a_killed_daemon_is_dead_and_can_be_started_again(daemon: MpsDaemon) -> None:
    first = start(daemon)
    connect(daemon)
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: not daemon.is_alive())
    assert daemon.pid() == first.pid, "a killed daemon leaves its pid"
    second = start(daemon)
    assert second != first
    assert daemon.quit()


def test_a_pid_that_another_process_has_is_no_daemon(daemon: MpsDaemon) -> None:
    os.makedirs(daemon.folder.pipe)
    environment = client_variables(daemon.folder, None, None)
    with subprocess.Popen(["sleep", "1000"], env={**os.environ, **environment}) as client:
        Path(daemon.folder.pipe, "nvidia-cuda-mps-control.pid").write_text(str(client.pid))
        until(lambda: processes_below(daemon.folder.path) == [client.pid])
        assert daemon.process() is None
        assert daemon.quit()
        assert client.poll() is None
        client.kill()


def test_a_daemon_that_does_not_answer_is_killed_with_its_server(daemon: MpsDaemon) -> None:
    process = start(daemon)
    server = connect(daemon)
    os.kill(process.pid, signal.SIGSTOP)
    quick = MpsDaemon(daemon.folder, "/bin/false")  # answers nothing, as the real one after its time is over
    assert quick.quit()
    assert not process.is_alive()
    until(lambda: find_process(server) is None)


def test_a_daemon_without_its_pid_file_is_ended_too(daemon: MpsDaemon) -> None:
    process = start(daemon)
    os.unlink(f"{daemon.folder.pipe}/nvidia-cuda-mps-control.pid")
    assert daemon.process() is None
    assert daemon.quit()
    assert not process.is_alive()


def test_a_daemon_that_runs_already_counts_as_started(daemon: MpsDaemon) -> None:
    process = start(daemon)
    assert start(daemon) == process
    assert daemon.quit()


def test_why_a_daemon_does_not_start_is_one_line(tmp_path: Path) -> None:
    folder = MpsFolder(str(tmp_path / "folder"))
    refused = MpsDaemon(folder, write_control(tmp_path, "no GPU\nis here\n"))
    assert refused.start({}) == f"{tmp_path}/nvidia-cuda-mps-control -d: exit code 1: no GPU is here"
    missing = MpsDaemon(folder, str(tmp_path / "missing"))
    assert missing.start({}) == f"{tmp_path}/missing: No such file or directory"
    mute = MpsDaemon(folder, "/bin/true")
    assert mute.start({}, limit=0.05) == f"/bin/true ended at once; its logs are in {folder.log}"
    stuck = tmp_path / "stuck"
    stuck.write_text("#!/bin/sh\nexec sleep 1000\n")
    stuck.chmod(0o700)
    assert MpsDaemon(folder, str(stuck)).start({}, limit=0.05) == f"{stuck} did not return within 0.05 s"
