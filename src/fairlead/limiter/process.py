"""RunningProcess: one process, never confused with a later one of the same pid."""

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

_DEAD: Final = frozenset((b"Z", b"X", b"x"))
_START: Final = 19
"""The index of the start time among the fields after the command's name: field 22 of proc(5)."""


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """A process, by its pid and the clock ticks between the boot and its start."""

    pid: int
    start: int

    def is_alive(self) -> bool:
        """Return whether it lives; a zombie does not."""
        return find_process(self.pid) == self

    def kill(self) -> None:
        """Send SIGKILL to this process alone."""
        handle = -1
        with suppress(OSError, AttributeError):  # Linux before 5.3, or it has ended
            handle = os.pidfd_open(self.pid)
        with suppress(ProcessLookupError, PermissionError):
            if not self.is_alive():  # with an open handle, the process that it names is checked here
                pass
            elif handle >= 0:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            else:
                os.kill(self.pid, signal.SIGKILL)
        if handle >= 0:
            os.close(handle)


def find_process(pid: int) -> RunningProcess | None:
    """Return a living process; None: there is none of this pid."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            fields = stat.read(4096).rpartition(b")")[2].split()
    except OSError:
        return None
    if len(fields) <= _START or fields[0] in _DEAD:
        return None
    return RunningProcess(pid, int(fields[_START]))
