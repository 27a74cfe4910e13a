"""Hosts and quotas, where this machine allows them; the files of control groups in a folder elsewhere."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fairlead.errors import EmulationError
from fairlead.reproduce.emulation.namespaces import host_pair, obstacle
from fairlead.reproduce.emulation.quota import DutyCycle, GroupQuota, cpu_quota, hold_group, remove_stale


def version_two(root: Path) -> Path:
    """Return the root of a machine with cgroup v2, whose new groups have the file of the quota."""
    (root / "cgroup.controllers").write_text("cpu memory")
    return root


def test_without_control_groups_processes_are_stopped_in_turn(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    try:
        with cpu_quota(0.25, version_two(tmp_path)) as quota:  # mkdir makes no cpu.max there
            assert isinstance(quota, DutyCycle)
            assert quota.command(["a", "b"]) == ["a", "b"]
            quota.on_start(child.pid)
            until = time.monotonic() + 10
            while _state(child.pid) != "T":
                assert time.monotonic() < until
        assert _state(child.pid) != "T"
        assert [path.name for path in tmp_path.iterdir()] == ["cgroup.controllers"]
    finally:
        child.kill()
        child.communicate()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def test_a_program_moves_itself_into_its_group(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").touch()
    done = subprocess.run(
        GroupQuota(tmp_path, "").command([sys.executable, "-c", "import os; print(os.getpid())"]),
        capture_output=True,
        text=True,
        check=True,
    )
    assert (tmp_path / "cgroup.procs").read_text() == done.stdout


@pytest.mark.parametrize(
    ("unified", "files"),
    [
        (True, {"node-2/cpu.max": "2500 10000"}),
        (False, {"cpu/node-2/cpu.cfs_period_us": "10000", "cpu/node-2/cpu.cfs_quota_us": "2500"}),
    ],
)
def test_a_group_that_is_there_is_held_to_its_part(
    tmp_path: Path, unified: bool, files: dict[str, str]
) -> None:
    if unified:
        version_two(tmp_path)
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    assert "2500/10000 us" in hold_group("node-2", 0.25, tmp_path)
    assert {file: (tmp_path / file).read_text() for file in files} == files
    with pytest.raises(EmulationError, match="control group node-3 takes no CPU quota: No such file"):
        hold_group("node-3", 0.25, tmp_path)


def test_groups_of_ended_programs_are_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for pid in (ended.pid, os.getpid()):
        (tmp_path / f"fairlead-emulation-{pid}-1").mkdir()
    (tmp_path / "other").mkdir()
    remove_stale(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"other", f"fairlead-emulation-{os.getpid()}-1"}


def test_a_quota_slows_a_program_down() -> None:
    with cpu_quota(0.2) as quota:
        if not isinstance(quota, GroupQuota):
            pytest.skip("no control group can be made here")
        burn = "import time\nwhile time.process_time() < 0.15: pass"
        begin = time.monotonic()
        subprocess.run(quota.command([sys.executable, "-c", burn]), check=True)
        assert time.monotonic() - begin >= 0.5
        folder = quota.folder
    assert not folder.exists()


def test_two_hosts_are_joined_by_a_link_with_a_rate() -> None:
    why = obstacle()
    if why:
        pytest.skip(why)
    with host_pair() as pair:
        listen = "import socket; s = socket.create_server(('10.90.0.2', 7000)); print(flush=True)\n"
        take = "c, _ = s.accept()\nwhile c.recv(1 << 16): pass\nc.sendall(b'x')"
        server = subprocess.Popen(
            pair.server.command([sys.executable, "-c", listen + take]), stdout=subprocess.PIPE
        )
        assert server.stdout is not None
        server.stdout.readline()
        pair.set_rate(8e6)
        send = (
            "import socket; c = socket.create_connection(('10.90.0.2', 7000)); c.sendall(bytes(600_000));"
            "c.shutdown(socket.SHUT_WR); c.recv(1)"
        )
        begin = time.monotonic()
        subprocess.run(pair.edge.command([sys.executable, "-c", send]), check=True)
        assert time.monotonic() - begin >= 0.4  # 0.6 s less a burst
        pair.set_rate(None)
        assert server.wait(10) == 0
        server.stdout.close()
        holders = [host.holder for host in pair.hosts]
    assert not any(Path(f"/proc/{pid}").exists() for pid in holders)
