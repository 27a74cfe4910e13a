"""Processes: a pid that was used again, a zombie, names with parentheses, a hidden /proc."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fairlead.errors import LedgerError
from fairlead.job import ProcessRef
from fairlead.ledger import boot_id, is_alive, process_ref, seconds_since_boot
from fairlead.ledger.liveness import is_stopped
from tests.ledger.jobs import as_user, in_child, mount, myself, needs_root, the_dead

BOOT = "11111111-2222-3333-4444-555555555555"


def a_root(path: Path, stat: str, boot: str = BOOT) -> str:
    """Return a root whose process 7 has this line."""
    for name, text in (("proc/7/stat", stat), ("proc/sys/kernel/random/boot_id", f"{boot}\n")):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    return str(path)


def a_line(comm: str, state: str, start: int, threads: int = 1) -> str:
    """Return a line of proc(5)."""
    return f"7 ({comm}) {state} 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 {threads} 0 {start} 1 1 1\n"


@pytest.mark.parametrize("comm", ["python3", "a b", "x) Z 1 (y", ")", "((", "tab\there"])
@pytest.mark.parametrize(
    ("state", "alive"), [("R", True), ("S", True), ("T", True), ("Z", False), ("X", False)]
)
def test_a_command_name_may_hold_anything(tmp_path: Path, comm: str, state: str, alive: bool) -> None:
    root = a_root(tmp_path, a_line(comm, state, 4711))
    assert process_ref(7, root) == ProcessRef(7, 4711, BOOT)
    assert is_alive(ProcessRef(7, 4711, BOOT), root) is alive


@pytest.mark.parametrize(("threads", "alive"), [(0, False), (1, False), (2, True)])
def test_a_zombie_with_a_thread_that_still_ends_holds_its_memory(
    tmp_path: Path, threads: int, alive: bool
) -> None:
    root = a_root(tmp_path, a_line("python3", "Z", 4711, threads))
    assert is_alive(ProcessRef(7, 4711, BOOT), root) is alive


@pytest.mark.parametrize(
    ("state", "start", "stopped"), [("T", 4711, True), ("t", 4711, True), ("S", 4711, False), ("T", 1, False)]
)
def test_a_process_may_be_stopped(tmp_path: Path, state: str, start: int, stopped: bool) -> None:
    assert is_stopped(ProcessRef(7, 4711, BOOT), a_root(tmp_path, a_line("sh", state, start))) is stopped


@pytest.mark.parametrize(
    ("ref", "alive"),
    [
        (ProcessRef(7, 4711, BOOT), True),
        (ProcessRef(7, 4712, BOOT), False),
        (ProcessRef(8, 4711, BOOT), False),
        (ProcessRef(7, 4711, BOOT.replace("1", "9")), False),
        (ProcessRef(7, 4711, f"{BOOT}/4026532999"), False),
    ],
)
def test_a_process_is_its_pid_start_and_boot(tmp_path: Path, ref: ProcessRef, alive: bool) -> None:
    assert is_alive(ref, a_root(tmp_path, a_line("sh", "S", 4711))) is alive
    assert process_ref(8, str(tmp_path)) is None


@pytest.mark.parametrize(
    ("namespace", "boot"), [("pid:[4026531836]", BOOT), ("pid:[4026532281]", f"{BOOT}/4026532281")]
)
def test_the_namespace_of_a_container_is_part_of_its_boot(tmp_path: Path, namespace: str, boot: str) -> None:
    root = a_root(tmp_path, a_line("sh", "S", 4711))
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to(namespace)
    assert process_ref(7, root) == ProcessRef(7, 4711, boot)
    assert is_alive(ProcessRef(7, 4711, boot), root)
    assert boot_id(root) == boot


def test_a_machine_without_proc_is_named(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="proc/sys/kernel/random/boot_id: No such file or directory"):
        boot_id(str(tmp_path))


@pytest.mark.parametrize("line", ["", "7 (sh) S 1\n", "7 (sh"])
def test_a_line_that_is_cut_names_no_process(tmp_path: Path, line: str) -> None:
    root = a_root(tmp_path, line)
    assert process_ref(7, root) is None
    assert not is_alive(ProcessRef(7, 1, BOOT), root)


def test_this_process_lives_and_an_ended_one_does_not() -> None:
    assert is_alive(myself())
    assert not is_alive(replace(myself(), start=myself().start + 1))
    assert not is_alive(the_dead())
    assert process_ref(os.getpid()) == myself()


def test_a_zombie_has_ended() -> None:
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os._exit(0)  # the kernel closes the pipe before the process is a zombie, hence the wait below
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    ref = process_ref(pid)
    assert ref is not None
    assert not is_alive(ref)
    os.waitpid(pid, 0)


def test_the_seconds_since_the_boot_are_those_of_the_kernel() -> None:
    before = float(Path("/proc/uptime").read_text().split()[0])
    now = seconds_since_boot()
    after = float(Path("/proc/uptime").read_text().split()[0])
    assert before - 0.02 <= now <= after + 0.02
    assert len(boot_id().partition("/")[0]) == 36


@needs_root
def test_a_hidden_process_counts_as_alive_while_it_exists() -> None:
    living, dead = myself(), the_dead()

    def look() -> None:
        assert not os.path.exists(f"/proc/{living.pid}"), "hidepid hides it"
        assert is_alive(living)
        assert not is_alive(dead)

    def hide() -> None:
        mount("proc", "/proc", "hidepid=2")
        boot_id()
        problem = as_user(64001, look)
        assert not problem, problem

    problem = in_child(hide)
    if "Operation not permitted" in problem:
        pytest.skip("no mount in this container")
    assert not problem, problem


@needs_root
def test_a_time_namespace_changes_neither_processes_nor_times(tmp_path: Path) -> None:
    """A process whose clocks since the boot are a day off looks up this one, and tells what it sees."""
    script = (
        "import os\nfrom fairlead.ledger import *\n"
        f"print(process_ref({os.getpid()}), is_alive(process_ref(os.getpid())), seconds_since_boot())"
    )
    command = ["unshare", "--time", "--boottime", "86400", "--fork", sys.executable, "-c", script]
    before = seconds_since_boot()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and "unshare" in done.stderr:
        pytest.skip("no time namespaces here")
    ref, alive, seconds = done.stdout.rsplit(maxsplit=2)
    assert (ref, alive) == (repr(myself()), "True")
    assert before <= float(seconds) <= seconds_since_boot()
