"""The program end to end: a real process, a real socket, a library built for the test, a /proc of its own."""

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairlead.attribution import USE_SOCKET
from fairlead.attribution.client import ContainerShare, DeviceShares, read_use
from fairlead.errors import AttributionError
from fairlead.units import Bytes
from tests.attribution.processes import HOST, ID, UID, in_pod, start
from tests.test_nvml import built, needs_compiler

GROUP = os.getegid() or 10001
UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"
PATIENCE = 60.0


@contextmanager
def program(folder: Path, *options: str) -> Iterator["subprocess.Popen[str]"]:
    """Run the program until the block ends."""
    command = [sys.executable, "-c", "from fairlead.cli.main import run; run()", "warden", "attribute"]
    command += ["--folder", str(folder), "--group", str(GROUP), *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr
            line = process.stderr.readline()
            assert line == f"fairlead attribution: listening on {folder}/{USE_SOCKET}\n"
            yield process
        finally:
            process.kill()


@needs_compiler
def test_the_use_of_a_pod_comes_and_goes(tmp_path: Path) -> None:
    shared, proc, listed = tmp_path / "shared", tmp_path / "proc", tmp_path / "listed"
    shared.mkdir()
    library = built(tmp_path, f'-DPROCESSES="{listed}"')
    start(proc, 7, in_pod())
    start(proc, 8, HOST)
    listed.write_text(f"7 {3 << 30} 40\n8 {1 << 20} 10\n9 77 10\n")  # 9 has ended
    with program(shared, "--nvml", library, "--proc", str(proc), "--sys", str(tmp_path)) as process:
        mine = ContainerShare(UID, ID, Bytes(3 << 30), 0.4)
        ask = shared / USE_SOCKET
        assert read_use(ask) == (DeviceShares(UUID, "pci:0000:3b:00.0", Bytes(1 << 20), (mine,)),)
        assert stat.S_IMODE(ask.stat().st_mode) == 0o660
        assert (stat.S_IMODE(shared.stat().st_mode), ask.stat().st_gid) == (0o750, GROUP)
        listed.write_text("")
        deadline = time.monotonic() + PATIENCE
        while read_use(ask)[0].containers and time.monotonic() < deadline:
            pass  # an answer is repeated for a moment
        assert read_use(ask) == (DeviceShares(UUID, "pci:0000:3b:00.0", Bytes(0), ()),)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    assert os.listdir(shared) == []
    with pytest.raises(AttributionError, match="No such file"):
        read_use(ask)


def test_a_silent_client_delays_others_and_does_not_stop_the_program(tmp_path: Path) -> None:
    with program(tmp_path, "--nvml", "/nowhere", "--sys", str(tmp_path)) as process:
        with socket.socket(socket.AF_UNIX) as silent:
            silent.connect(str(tmp_path / USE_SOCKET))
            with pytest.raises(AttributionError, match="timed out"):
                read_use(tmp_path / USE_SOCKET, timeout=0.3)
        assert read_use(tmp_path / USE_SOCKET, timeout=PATIENCE) == ()
        assert process.poll() is None


ANSWERS = {
    b"": "not JSON",
    b"nothing": "not JSON",
    b"[]": "unexpected form",
    b'{"ok":false,"error":"no"}': "no",
    b'{"ok":true,"devices":[{"uuid":"","bus":""}]}': "unexpected form",
    b'{"ok":true,"devices":7}': "unexpected form",
}
ROWS = (
    '{"pod":"../etc","container":"","memory":1,"busy":0}',
    f'{{"pod":"{UID}","container":"x","memory":1,"busy":0}}',
    f'{{"pod":"{UID}","container":"","memory":-1,"busy":0}}',
    f'{{"pod":"{UID}","container":"","memory":1e99,"busy":0}}',
    f'{{"pod":"{UID}","container":"","memory":true,"busy":0}}',
    f'{{"pod":"{UID}","container":"","memory":1,"busy":1.01}}',
    f'{{"pod":"{UID}","container":"","memory":1,"busy":NaN}}',
    '{"pod":7,"container":"","memory":1,"busy":0}',
)


@pytest.mark.parametrize("row", ROWS)
def test_the_agent_takes_no_row_of_another_form(tmp_path: Path, row: str) -> None:
    answer = f'{{"ok":true,"devices":[{{"uuid":"","bus":"","foreign":0,"containers":[{row}]}}]}}'
    with pytest.raises(AttributionError, match="unexpected form"):
        answered(tmp_path / "s", answer.encode())


@pytest.mark.parametrize("answer", ANSWERS)
def test_the_agent_takes_no_answer_of_another_form(tmp_path: Path, answer: bytes) -> None:
    with pytest.raises(AttributionError, match=ANSWERS[answer]):
        answered(tmp_path / "s", answer)


def answered(path: Path, answer: bytes) -> None:
    """Let a program that answers with these bytes be asked once."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        child = os.fork()
        if not child:
            connection, _ = listener.accept()
            connection.recv(100)
            connection.sendall(answer)
            os._exit(0)
        try:
            read_use(path, timeout=PATIENCE)
        finally:
            os.waitpid(child, 0)
