"""Processes: whether the one that a record names still lives.

A pid alone says nothing, because the kernel uses it again: the start time and the boot make it unique. A
zombie is dead when all its threads have ended. A process that /proc hides (mount option hidepid) counts as
alive while its pid exists: memory is rather booked for too long than given out twice.

In a container with a PID namespace of its own, the namespace is part of the boot: for the ledger in it, a
restart of the container is a restart of the machine. Processes of another namespace cannot be looked up, so
containers that share one state directory must share the machine's PID namespace too.

A time namespace shifts the seconds since the boot, and with them every start time in /proc. Records have them
as the machine itself counts.
"""

import os
import time
from functools import lru_cache
from typing import Final

from fairlead.errors import LedgerError
from fairlead.job import ProcessRef

_DEAD: Final = frozenset("Xx")
_ZOMBIE: Final = "Z"
_STOPPED: Final = frozenset("Tt")
_THREADS: Final = 17
"""The index of the number of threads: field 20."""
_START: Final = 19
"""The index of the start time among the fields after the command's name: field 22 of proc(5)."""
_INITIAL_NAMESPACE: Final = "pid:[4026531836]"
"""PROC_PID_INIT_INO of the kernel: the PID namespace of the machine itself."""


_INITIAL_TIME: Final = "time:[4026531834]"
"""PROC_TIME_INIT_INO of the kernel: the time namespace of the machine itself."""
_NANO: Final = 10**9


def seconds_since_boot() -> float:
    """Return the seconds since the boot, sleep included: no clock jump or time namespace changes them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - _boot_shift() / _NANO


@lru_cache(maxsize=4)
def shifted_ticks(root: str = "/") -> int:
    """Return the clock ticks that the time namespace of this process adds to start times in /proc."""
    return _boot_shift(root) * os.sysconf("SC_CLK_TCK") // _NANO


@lru_cache(maxsize=4)
def _boot_shift(root: str = "/") -> int:
    """Return the nanoseconds that the time namespace of this process adds to the time since the boot."""
    own = os.path.join(root, "proc/self")
    try:
        if os.readlink(f"{own}/ns/time") == _INITIAL_TIME:
            return 0
        with open(f"{own}/timens_offsets", encoding="ascii") as file:
            rows = [line.split() for line in file]
        return sum(int(row[1]) * _NANO + int(row[2]) for row in rows if row[0] == "boottime")
    except (OSError, ValueError, IndexError):  # Linux before 5.6 has no time namespaces
        return 0


@lru_cache(maxsize=4)
def boot_id(root: str = "/") -> str:
    """Return the id of this boot; in a PID namespace that is not the machine's, with that namespace."""
    path = os.path.join(root, "proc/sys/kernel/random/boot_id")
    try:
        with open(path, encoding="ascii") as file:
            boot = file.read().strip()
    except OSError as error:
        raise LedgerError(
            f"{path}: {error.strerror}: no process can be told from another", "mount /proc"
        ) from None
    try:
        namespace = os.readlink(os.path.join(root, "proc/self/ns/pid"))
    except OSError:
        return boot
    return boot if namespace == _INITIAL_NAMESPACE else f"{boot}/{namespace.strip('pid:[]')}"


def process_ref(pid: int, root: str = "/") -> ProcessRef | None:
    """Return a process, also a zombie; None: no such process, or /proc hides it."""
    try:
        fields = _stat(pid, root)
    except PermissionError:
        return None
    return None if fields is None else ProcessRef(pid, _start(fields, root), boot_id(root))


def is_alive(ref: ProcessRef, root: str = "/") -> bool:
    """Return whether the process lives; a zombie does not, once its last thread has ended."""
    if ref.boot != boot_id(root):
        return False
    try:
        fields = _stat(ref.pid, root)
    except PermissionError:
        return True
    if fields is None:
        return root == "/" and _exists(ref.pid)
    return not _has_ended(fields) and _start(fields, root) == ref.start


def is_stopped(ref: ProcessRef, root: str = "/") -> bool:
    """Return whether a living process is stopped by a signal or a debugger; one that is hidden is not."""
    try:
        fields = _stat(ref.pid, root)
    except PermissionError:
        return False
    return fields is not None and fields[0] in _STOPPED and _start(fields, root) == ref.start


def _has_ended(fields: list[str]) -> bool:
    """Return whether nothing of a process is left but its pid: its last thread frees its memory."""
    return fields[0] in _DEAD or (fields[0] == _ZOMBIE and int(fields[_THREADS]) <= 1)


def _stat(pid: int, root: str) -> list[str] | None:
    try:
        file = os.open(f"{root.rstrip('/')}/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return None
    try:
        text = os.read(file, 4096).decode("utf-8", "replace")
    except ProcessLookupError:
        return None
    finally:
        os.close(file)
    # The name of the command stands in parentheses, and may contain spaces and parentheses itself.
    fields = text[text.rfind(")") + 2 :].split()
    return fields if len(fields) > _START else None


def _start(fields: list[str], root: str) -> int:
    return int(fields[_START]) - shifted_ticks(root)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True  # another user's process, which /proc hides
    except (ProcessLookupError, OverflowError):
        return False
    return True
