"""Signals to the processes of a job: to these alone, never to a later process of the same pid."""

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from fairlead.job import ProcessRef
from fairlead.ledger.liveness import is_alive, process_ref
from fairlead.local.processes import children_of, descendants

_GROUP: Final = 2
"""The process group's place in /proc/PID/stat after the name of the program."""


def processes_of(command: ProcessRef, *, group: bool, root: str = "/") -> tuple[ProcessRef, ...]:
    """Return a living command and its descendants; with `group`, also what is left of its process group.

    A child whose parent has ended is no descendant any more, but stays in the group. None is returned for a
    command that has ended: another command may have its pid by now.
    """
    if not is_alive(command, root):
        return ()
    pids = descendants(command.pid, children_of(root))
    if group:
        pids |= _group_members(command.pid, root)
    found = [command, *(process_ref(pid, root) for pid in sorted(pids - {command.pid}))]
    return tuple(ref for ref in found if ref is not None) if is_alive(command, root) else ()


def send_signal(ref: ProcessRef, number: int, root: str = "/") -> bool:
    """Send a signal to this process alone; False where it has ended or belongs to another user."""
    opener = getattr(os, "pidfd_open", None)
    try:
        handle = opener(ref.pid) if opener is not None else None
    except ProcessLookupError:
        return False
    except OSError:  # Linux before 5.3
        handle = None
    try:
        # The handle is open: from here on it names one process, and the check says which.
        if not is_alive(ref, root):
            return False
        if handle is None:
            os.kill(ref.pid, number)
        else:
            signal.pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        if handle is not None:
            os.close(handle)
    return True


def send_to_all(processes: Iterable[ProcessRef], number: int, root: str = "/") -> None:
    """Send a signal to each process; a stopped one is continued, so that it can obey."""
    for ref in processes:
        if send_signal(ref, number, root) and number != signal.SIGKILL:
            send_signal(ref, signal.SIGCONT, root)


def _group_members(group: int, root: str) -> set[int]:
    proc = os.path.join(root, "proc")
    members = set()
    for name in os.listdir(proc):
        if name.isdecimal():
            with suppress(OSError, ValueError, IndexError), open(f"{proc}/{name}/stat", "rb") as stat:
                if int(stat.read(4096).rpartition(b")")[2].split()[_GROUP]) == group:
                    members.add(int(name))
    return members
