"""A cgroup for one job: the RAM that it may hold, and the memory of GPUs on kernels that limit it.

Version 2 only, and only where this user may make cgroups: as root, or below a delegated cgroup, as the
desktop sessions of systemd are. Elsewhere nothing is made and nothing is limited.

No quota of cores is set: a job would be slowed though cores are idle. Where the cgroups beside it have a
weight, it gets one for each of its cores; in a group of one weight, all of its threads would count as one.
"""

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from fairlead.units import Bytes

_PREFIX: Final = "fairlead-job-"
_NAME: Final = re.compile(rf"{_PREFIX}.+-([0-9]{{1,10}})-([0-9]{{1,20}})")
_MOUNT: Final = re.compile(r"(?m)^\S+ \S+ \S+ \S+ (\S+) .* - cgroup2 ")
_OWN: Final = re.compile(r"(?m)^0::(/.*)$")
_OOM_KILL: Final = re.compile(r"(?m)^oom_kill ([0-9]{1,19})$")
_LIMITS: Final = frozenset({"memory.max", "dmem.max"})
_UNLIMITED: Final = ("", "max")
_OWN_LIMITS: Final = ("memory.max", "memory.high", "memory.swap.max", "cpu.max", "cpuset.cpus", "io.max")
"""The files of a cgroup that limit what its processes use together."""
_WEIGHT: Final = 100
"""The weight of a cgroup for which none is set."""
_MOST_WEIGHT: Final = 10_000


@dataclass(frozen=True, slots=True)
class CgroupLimits:
    """What a job may hold."""

    memory: Bytes | None = None
    """RAM; None: no limit."""
    cores: int = 1
    """For its weight, where cgroups have one."""
    video_memory: Mapping[str, Bytes] = field(default_factory=dict)
    """By PCI address, the memory of GPUs whose drivers let the kernel limit it (dmem): amdgpu and xe."""


@dataclass(frozen=True, slots=True)
class JobCgroup:
    """The cgroup of one job."""

    path: str

    def add(self, pid: int) -> bool:
        """Move a process into it; False where that is not allowed."""
        return _write(self.path, "cgroup.procs", str(pid))

    def was_killed(self) -> bool:
        """Say whether the kernel has killed its processes because they held all of its RAM."""
        match = _OOM_KILL.search(_read(self.path, "memory.events"))
        return match is not None and int(match[1]) > 0

    def remove(self) -> None:
        """Remove it; one in which a process is left stays for `remove_abandoned`."""
        with suppress(OSError):
            os.rmdir(self.path)


def create_cgroup(job: str, pid: int, start: int, limits: CgroupLimits, root: str = "/") -> JobCgroup | None:
    """Make a cgroup with limits, named after a job and the process that keeps it; None: not here."""
    parent = _parent(root)
    regions = _regions(limits.video_memory, root)
    controllers = [*(["memory"] if limits.memory is not None else []), *(["dmem"] if regions else [])]
    if isinstance(parent, _NoCgroup) or not controllers:
        return None
    enabled = {name for name in controllers if _enable(parent, name)}
    path = f"{parent}/{_PREFIX}{re.sub('[^A-Za-z0-9]', '_', job)}-{pid}-{start}"
    try:
        os.mkdir(path)
    except OSError:
        return None
    written = {name for name, text in limit_files(limits, regions).items() if _write(path, name, text)}
    if enabled and written & _LIMITS:
        return JobCgroup(path)
    JobCgroup(path).remove()
    return None


def remove_abandoned(is_alive: Callable[[int, int], bool], root: str = "/") -> None:
    """Remove own cgroups without processes whose keeper, by pid and start, has ended."""
    parent = _parent(root)
    if isinstance(parent, _NoCgroup):
        return
    for name in _names(parent):
        keeper = _NAME.fullmatch(name)
        if keeper and not is_alive(int(keeper[1]), int(keeper[2])):
            JobCgroup(f"{parent}/{name}").remove()


def cgroup_problem(root: str = "/") -> str:
    """Return why the RAM of a job cannot be limited here, in one line; empty: it can."""
    parent = _parent(root)
    if isinstance(parent, _NoCgroup):
        return parent.reason
    if "memory" not in _read(parent, "cgroup.controllers").split():
        return f"{parent} has no memory controller"
    return "" if os.access(parent, os.W_OK | os.X_OK) else f"this user may make no cgroup in {parent}"


@dataclass(frozen=True, slots=True)
class _NoCgroup:
    reason: str


def _parent(root: str) -> str | _NoCgroup:
    """Return the folder in which cgroups of jobs are made, beside the cgroup of this process.

    A cgroup with processes, but the root of all, can have none with controllers below it.
    """
    mount = _MOUNT.search(_read(os.path.join(root, "proc/self"), "mountinfo"))
    own = _OWN.search(_read(os.path.join(root, "proc/self"), "cgroup"))
    if mount is None or own is None:
        return _NoCgroup("the machine has no cgroup v2")
    top = os.path.join(root, mount[1].lstrip("/"))
    path = os.path.normpath(f"{top}/{own[1]}")
    if os.path.basename(path).startswith(_PREFIX):
        return _NoCgroup("it runs inside the cgroup of another job")
    if path != os.path.normpath(top):
        limit = next((name for name in _OWN_LIMITS if _first_word(path, name) not in _UNLIMITED), "")
        if limit:
            return _NoCgroup(f"a job would escape the {limit} of the cgroup that this process is in")
        return os.path.dirname(path)
    if os.path.exists(f"{path}/cgroup.type"):  # the root of all has no such file
        return _NoCgroup("the processes of this container are in its topmost cgroup")
    return path


def _first_word(folder: str, name: str) -> str:
    return next(iter(_read(folder, name).split()), "")


def _enable(parent: str, controller: str) -> bool:
    """Let cgroups in a folder have a controller."""
    if controller in _read(parent, "cgroup.subtree_control").split():
        return True
    return controller in _read(parent, "cgroup.controllers").split() and _write(
        parent, "cgroup.subtree_control", f"+{controller}"
    )


def limit_files(limits: CgroupLimits, regions: Mapping[str, Bytes]) -> dict[str, str]:
    """Return what is written to the files of a new cgroup, those that limit it first. Pure.

    A job that swaps slows every other, and half of a job is of no use: it gets no swap, and ends as a whole.
    """
    files = {}
    if regions:
        files["dmem.max"] = "\n".join(f"{name} {size}" for name, size in regions.items())
    if limits.memory is not None:
        files |= {"memory.max": str(limits.memory), "memory.swap.max": "0", "memory.oom.group": "1"}
    return files | {"cpu.weight": str(min(_MOST_WEIGHT, _WEIGHT * max(1, limits.cores)))}


def _regions(video_memory: Mapping[str, Bytes], root: str) -> dict[str, Bytes]:
    """Return the limits by the kernel's name of each GPU's own memory: `drm/0000:03:00.0/vram0`."""
    if not video_memory:
        return {}
    mount = _MOUNT.search(_read(os.path.join(root, "proc/self"), "mountinfo"))
    top = os.path.join(root, mount[1].lstrip("/")) if mount else ""
    names = [line.split(" ")[0] for line in _read(top, "dmem.capacity").splitlines()]
    return {
        name: size
        for address, size in video_memory.items()
        for name in names
        if name.startswith(f"drm/{address}/vram")
    }


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _read(folder: str, name: str) -> str:
    try:
        with open(f"{folder}/{name}", encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except OSError:
        return ""


def _write(folder: str, name: str, text: str) -> bool:
    """Write a file of a cgroup, which exists if its controller does."""
    try:
        file = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(file, text.encode())
    except OSError:
        return False
    finally:
        os.close(file)
    return True
