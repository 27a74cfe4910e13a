"""The end of a command: its exit code as shells count it, and a tree of processes that is asked to end."""

import os
import resource
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from fairlead.job import ProcessRef
from fairlead.ledger.liveness import is_alive
from fairlead.local.terminate import processes_of, send_to_all

GRACE: Final = 10.0
"""Seconds between SIGTERM and SIGKILL."""
_SIGNALLED: Final = 128
_PAUSE: Final = 0.05


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How the process of a command ended."""

    status: int
    """As waitpid returns it."""
    usage: resource.struct_rusage
    """The kernel's account of it, and of its descendants that were waited for."""

    @property
    def exit_code(self) -> int:
        """The exit code; 128+n for signal n."""
        code = os.waitstatus_to_exitcode(self.status)
        return code if code >= 0 else _SIGNALLED - code

    @property
    def signal_name(self) -> str:
        """The signal that ended it, such as SIGKILL; empty: none."""
        if not os.WIFSIGNALED(self.status):
            return ""
        number = os.WTERMSIG(self.status)
        with suppress(ValueError):
            return signal.Signals(number).name
        return f"signal {number}"


class Termination:
    """Ends a command and its descendants: SIGTERM first, SIGKILL to those that are left after a while."""

    def __init__(
        self, command: ProcessRef, reason: str, now: float, *, group: bool, grace: float = GRACE
    ) -> None:
        self.reason = reason
        self.deadline = now + grace
        self._command = command
        self._group = group
        self._processes = set(processes_of(command, group=group))
        self._killed = False
        send_to_all(self._processes, signal.SIGTERM)

    def advance(self, now: float) -> None:
        """Kill what is left once the deadline has passed."""
        if now >= self.deadline and not self._killed:
            self._killed = True
            self._kill()

    def finish(self, clock: Callable[[], float]) -> None:
        """Wait for the descendants of a command that has ended; kill those that stay."""
        while any(is_alive(ref) for ref in self._processes) and clock() < self.deadline:
            time.sleep(_PAUSE)
        self._kill()

    def _kill(self) -> None:
        self._processes |= set(processes_of(self._command, group=self._group))
        send_to_all((ref for ref in self._processes if is_alive(ref)), signal.SIGKILL)
