"""The control groups of a node's pods: created for the lab, removed at its end."""

import hashlib
import os
import time
from pathlib import Path
from typing import Final

from fairlead.cores import usable_cores

ROOT: Final = Path("/sys/fs/cgroup")
PREFIX: Final = "fairlead-"
_CONTROLLERS: Final = ("cpuset", "cpu", "io", "memory", "hugetlb", "pids")
_INHERITED: Final = ("cpuset.cpus", "cpuset.mems")
"""In cgroup v1 a new group has no CPUs and no memory nodes until they are written."""
_WEIGHTS: Final = (("cpu.shares", 1024, 262_144), ("cpu.weight", 100, 10_000))
"""Where the weight of a group is set, in cgroup v1 and v2: that of one process, and the largest."""


def name_prefix(folder: Path) -> str:
    """Return the prefix of the names of a lab's groups, unique to the lab on this machine."""
    return f"{PREFIX}{hashlib.sha256(os.fsencode(folder)).hexdigest()[:10]}-"


def is_unified(root: Path = ROOT) -> bool:
    """Return whether the machine has cgroup v2 alone: one hierarchy for every controller."""
    return (root / "cgroup.controllers").exists()


def hierarchies(root: Path = ROOT) -> list[Path]:
    """Return the root of every cgroup hierarchy."""
    if is_unified(root):
        return [root]
    try:
        # Controllers that share a hierarchy are symbolic links: cpu -> cpu,cpuacct.
        return sorted({path.resolve() for path in root.iterdir() if (path / "cgroup.procs").exists()})
    except OSError:
        return []


def create(name: str, root: Path = ROOT) -> None:
    """Create a node's group in every hierarchy."""
    for hierarchy in hierarchies(root):
        if is_unified(root):
            _delegate(hierarchy)
        group = hierarchy / name
        group.mkdir(exist_ok=True)
        for setting in _INHERITED:
            if (group / setting).exists() and not is_unified(root):
                (group / setting).write_text((hierarchy / setting).read_text())
        _weigh(group)


def remove(folder: Path, root: Path = ROOT, patience: float = 5.0) -> list[Path]:
    """Remove all groups of a lab with their descendants; return those that still hold processes."""
    until = time.monotonic() + patience
    while True:
        groups = [
            group for hierarchy in hierarchies(root) for group in hierarchy.glob(f"{name_prefix(folder)}*")
        ]
        left = [group for group in groups if not _try_remove(group)]
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.05)  # the kernel releases ended processes a moment later


def _weigh(group: Path) -> None:
    """Give the pods of a node the weight that a kubelet gives them on a machine of as many processors.

    A new group weighs as much as one process of the machine, however many processes its pods have.
    """
    for setting, of_one, most in _WEIGHTS:
        if (group / setting).exists():
            (group / setting).write_text(str(min(most, of_one * usable_cores())), encoding="ascii")


def _try_remove(group: Path) -> bool:
    for folder, _, _ in os.walk(group, topdown=False):
        try:
            os.rmdir(folder)
        except OSError:
            return False
    return not group.exists()


def _delegate(hierarchy: Path) -> None:
    """Enable the controllers that the kubelet needs for the groups below the root."""
    available = (hierarchy / "cgroup.controllers").read_text(encoding="ascii").split()
    enabled = (hierarchy / "cgroup.subtree_control").read_text(encoding="ascii").split()
    for controller in _CONTROLLERS:
        if controller in available and controller not in enabled:
            (hierarchy / "cgroup.subtree_control").write_text(f"+{controller}", encoding="ascii")
