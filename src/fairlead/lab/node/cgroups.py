"""The control groups in which a node's pods run: made for the lab, and gone with it."""

import hashlib
import os
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path("/sys/fs/cgroup")
PREFIX: Final = "fairlead-"
_CONTROLLERS: Final = ("cpuset", "cpu", "io", "memory", "hugetlb", "pids")
_INHERITED: Final = ("cpuset.cpus", "cpuset.mems")
"""In version 1 a new group has no processors and no memory until it is told."""


def name_prefix(folder: Path) -> str:
    """Return how the names of all groups of a lab begin: no other lab of this machine has the same."""
    return f"{PREFIX}{hashlib.sha256(os.fsencode(folder)).hexdigest()[:10]}-"


def is_unified(root: Path = ROOT) -> bool:
    """Say whether the machine has version 2 alone: one tree for every controller."""
    return (root / "cgroup.controllers").exists()


def hierarchies(root: Path = ROOT) -> list[Path]:
    """Return the root of every tree of groups."""
    if is_unified(root):
        return [root]
    try:
        # Links join controllers that share a tree: cpu -> cpu,cpuacct.
        return sorted({path.resolve() for path in root.iterdir() if (path / "cgroup.procs").exists()})
    except OSError:
        return []


def create(name: str, root: Path = ROOT) -> None:
    """Make a node's group in every tree."""
    for tree in hierarchies(root):
        if is_unified(root):
            _delegate(tree)
        group = tree / name
        group.mkdir(exist_ok=True)
        for knob in _INHERITED:
            if (group / knob).exists() and not is_unified(root):
                (group / knob).write_text((tree / knob).read_text())


def remove(folder: Path, root: Path = ROOT, patience: float = 5.0) -> list[Path]:
    """Remove all groups of a lab and what is below them; return those that still hold processes."""
    until = time.monotonic() + patience
    while True:
        groups = [group for tree in hierarchies(root) for group in tree.glob(f"{name_prefix(folder)}*")]
        left = [group for group in groups if not _removed(group)]
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.05)  # the kernel takes a moment to let go of what has ended


def _removed(group: Path) -> bool:
    for folder, _, _ in os.walk(group, topdown=False):
        try:
            os.rmdir(folder)
        except OSError:
            return False
    return not group.exists()


def _delegate(tree: Path) -> None:
    """Let groups below the root have the controllers that the kubelet asks for."""
    offered = (tree / "cgroup.controllers").read_text(encoding="ascii").split()
    given = (tree / "cgroup.subtree_control").read_text(encoding="ascii").split()
    for controller in _CONTROLLERS:
        if controller in offered and controller not in given:
            (tree / "cgroup.subtree_control").write_text(f"+{controller}", encoding="ascii")
