"""Cgroups of jobs: where they are made, what is written to them, and real ones where the machine has any."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.limiter.cgroup import (
    CgroupLimits,
    JobCgroup,
    cgroup_problem,
    create_cgroup,
    limit_files,
    remove_abandoned,
)
from fairlead.units import Bytes

GIB = 1 << 30
MOUNT = "36 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
HYBRID = "35 24 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
needs_cgroup = pytest.mark.skipif(bool(cgroup_problem()), reason=f"no cgroup here: {cgroup_problem()}")


class Tree:
    """A machine with cgroups, as far as files can play it."""

    def __init__(self, root: Path, own: str = "/", mounts: str = MOUNT) -> None:
        self.root, self.top = root, root / "sys/fs/cgroup"
        self.top.mkdir(parents=True)
        (root / "proc/self").mkdir(parents=True)
        (root / "proc/self/mountinfo").write_text(mounts)
        (root / "proc/self/cgroup").write_text(f"1:name=systemd:/x\n0::{own}\n")
        (self.top / own.lstrip("/")).mkdir(parents=True, exist_ok=True)

    def folder(self, path: str, controllers: str = "cpu memory", subtree: str = "memory") -> Path:
        folder = self.top / path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.controllers").write_text(controllers)
        (folder / "cgroup.subtree_control").write_text(subtree)
        return folder

    def problem(self) -> str:
        return cgroup_problem(str(self.root)).replace(str(self.root), "")


@pytest.mark.parametrize(
    ("own", "parent"), [("/", ""), ("/user.slice/app.slice/term.scope", "user.slice/app.slice")]
)
def test_cgroups_of_jobs_are_made_beside_that_of_the_runner(tmp_path: Path, own: str, parent: str) -> None:
    tree = Tree(tmp_path, own)
    assert tree.problem() == f"/sys/fs/cgroup{'/' if parent else ''}{parent} has no memory controller"
    folder = tree.folder(parent)
    assert tree.problem() == ""
    # Files do not appear in a played folder: no limit can be written, and nothing is left of the try.
    assert create_cgroup("7", 1, 2, CgroupLimits(Bytes(GIB)), str(tmp_path)) is None
    assert not list(folder.glob("fairlead-*"))


@pytest.mark.parametrize(
    ("own", "mounts", "problem"),
    [
        ("/", HYBRID, "the machine has no cgroup v2"),
        ("/a/fairlead-job-7-1-2", MOUNT, "it runs inside the cgroup of another job"),
    ],
)
def test_where_no_cgroup_can_be_made_nothing_changes(
    tmp_path: Path, own: str, mounts: str, problem: str
) -> None:
    tree = Tree(tmp_path, own, mounts)
    assert tree.problem() == problem
    assert create_cgroup("7", 1, 2, CgroupLimits(Bytes(GIB)), str(tmp_path)) is None
    remove_abandoned(lambda *_: False, str(tmp_path))


@pytest.mark.parametrize(
    ("file", "text", "escapes"),
    [
        ("memory.max", "1073741824\n", True),
        ("memory.max", "max\n", False),
        ("cpu.max", "50000 100000\n", True),
        ("cpu.max", "max 100000\n", False),
        ("cpuset.cpus", "0-1\n", True),
        ("cpuset.cpus", "\n", False),
    ],
)
def test_no_job_escapes_the_limits_of_the_cgroup_that_it_was_started_in(
    tmp_path: Path, file: str, text: str, escapes: bool
) -> None:
    tree = Tree(tmp_path, "/a/limited.scope")
    tree.folder("a")
    (tree.top / "a/limited.scope" / file).write_text(text)
    problem = f"a job would escape the {file} of the cgroup that this process is in"
    assert tree.problem() == (problem if escapes else "")


def test_the_topmost_cgroup_of_a_container_has_processes(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.folder("")
    (tree.top / "cgroup.type").write_text("domain\n")
    assert tree.problem() == "the processes of this container are in its topmost cgroup"


def test_what_is_written_to_a_cgroup() -> None:
    ram = limit_files(CgroupLimits(Bytes(GIB), 4), {})
    assert ram == {
        "memory.max": str(GIB),
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "cpu.weight": "400",
    }
    video = limit_files(CgroupLimits(None, 900), {"drm/0000:03:00.0/vram0": Bytes(7), "b": Bytes(8)})
    assert video == {"dmem.max": "drm/0000:03:00.0/vram0 7\nb 8", "cpu.weight": "10000"}


def test_abandoned_cgroups_are_removed_and_no_others(tmp_path: Path) -> None:
    folder = Tree(tmp_path).folder("")
    for name in ("fairlead-job-7-10-100", "fairlead-job-8-11-100", "fairlead-job-x", "other-10-100"):
        (folder / name).mkdir()
    remove_abandoned(lambda pid, start: (pid, start) == (11, 100), str(tmp_path))
    left = sorted(each.name for each in folder.iterdir() if each.is_dir())
    assert left == ["fairlead-job-8-11-100", "fairlead-job-x", "other-10-100"]


TAKE = (
    "import sys; sys.stdin.read(1); data = bytearray(int(sys.argv[1])); data[::4096] = data[::4096]; print(1)"
)


@needs_cgroup
@pytest.mark.parametrize(("size", "killed"), [(16 << 20, False), (256 << 20, True)])
def test_a_process_that_takes_more_ram_is_killed_for_it(size: int, killed: bool) -> None:
    cgroup = create_cgroup("test", os.getpid(), 1, CgroupLimits(Bytes(96 << 20)))
    assert cgroup is not None
    command = [sys.executable, "-S", "-E", "-c", TAKE, str(size)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert cgroup.add(process.pid)
    process.communicate(b"x", timeout=300)
    assert (process.returncode, cgroup.was_killed()) == (-signal.SIGKILL if killed else 0, killed)
    cgroup.remove()
    assert not os.path.exists(cgroup.path)


@needs_cgroup
def test_a_cgroup_whose_keeper_was_killed_is_removed_by_the_next_command() -> None:
    cgroup = create_cgroup("test", 2**22 + 1, 1, CgroupLimits(Bytes(GIB)))
    assert cgroup is not None
    remove_abandoned(lambda pid, _: pid != 2**22 + 1)
    assert not os.path.exists(cgroup.path)


def test_a_cgroup_that_is_gone_is_no_surprise(tmp_path: Path) -> None:
    gone = JobCgroup(str(tmp_path / "gone"))
    assert not gone.add(os.getpid())
    assert not gone.was_killed()
    gone.remove()
