"""The tree of processes in /proc: one pass over it, the descendants of a process, its owner and its name."""

import os
from collections.abc import Iterable, Mapping
from typing import Final

_LIMIT: Final = 4096
"""Bytes of a file that are read: a line of /proc/PID/stat has a few hundred."""
_PARENT: Final = 1
"""The parent's place in /proc/PID/stat after the name of the program, which may contain anything."""


def all_pids(root: str = "/") -> frozenset[int]:
    """Return the pids of all processes; none where /proc cannot be read."""
    try:
        return frozenset(int(name) for name in os.listdir(os.path.join(root, "proc")) if name.isdecimal())
    except OSError:
        return frozenset()


def children_of(root: str = "/") -> Mapping[int, tuple[int, ...]]:
    """Return the children of every process below a root's /proc, read in one pass."""
    proc = os.path.join(root, "proc")
    children: dict[int, list[int]] = {}
    for pid in all_pids(root):
        fields = _read(f"{proc}/{pid}/stat").rpartition(b")")[2].split()
        if len(fields) > _PARENT and fields[_PARENT].isdigit():
            children.setdefault(int(fields[_PARENT]), []).append(pid)
    return {parent: tuple(sorted(pids)) for parent, pids in children.items()}


def descendants(pid: int, children: Mapping[int, tuple[int, ...]]) -> set[int]:
    """Return a process and all that descend from it; `children` comes from `children_of`.

    A process whose parent has ended is a child of init, or of a subreaper, and no descendant any more.
    """
    tree: set[int] = set()
    todo = [pid]
    while todo:
        process = todo.pop()
        if process not in tree:  # a pid that is reused during the pass can close a circle
            tree.add(process)
            todo += children.get(process, ())
    return tree


def process_tree(pids: Iterable[int], root: str = "/") -> set[int]:
    """Return these processes and all that descend from them."""
    children = children_of(root)
    return {member for pid in pids for member in descendants(pid, children)}


def process_name(pid: int, root: str = "/") -> str:
    """Return the name of a process' program, at most 15 characters; empty where it has ended."""
    name = _read(os.path.join(root, f"proc/{pid}/comm")).decode("utf-8", "replace").strip()
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in name)


def process_uid(pid: int, root: str = "/") -> int | None:
    """Return the uid that owns a process; None where it has ended or is hidden."""
    try:
        return os.stat(os.path.join(root, f"proc/{pid}")).st_uid
    except OSError:
        return None


def _read(path: str) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return os.read(handle, _LIMIT)
    except OSError:
        return b""
    finally:
        os.close(handle)
