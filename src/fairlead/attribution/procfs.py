"""Processes in /proc: their cgroups, and whether a pid still means the same process."""

import os
from typing import Final

from fairlead.attribution.cgroups import NoPod, PodContainer, kubelet_root, owner

_LIMIT: Final = 64 * 1024
"""Bytes of a file that are read."""
_START: Final = 19
"""The start time's place after the name of the program, which may contain anything."""


class ProcessTable:
    """The processes below a /proc."""

    def __init__(self, proc: str = "/proc", ticks: int = 0) -> None:
        self._proc = proc
        self._ticks = ticks or os.sysconf("SC_CLK_TCK")
        """Ticks of a second."""
        self._root = kubelet_root(self._read("self", "cgroup") or "")

    def owner(self, pid: int, before: float) -> PodContainer | NoPod | None:
        """Return the pod of the process that had this pid at a time, in seconds since the machine's start.

        None: that process has ended, and the pid may belong to another one.
        """
        started = self._started(pid)
        if started is None or started / self._ticks > before:
            return None
        text = self._read(pid, "cgroup")
        if text is None or self._started(pid) != started:
            return None
        return owner(text, self._root)

    def _started(self, pid: int) -> int | None:
        """Return when a process started, in ticks since the start of the machine."""
        text = self._read(pid, "stat") or ""
        fields = text.rpartition(")")[2].split()
        if len(fields) <= _START or not fields[_START].isdecimal():
            return None
        return int(fields[_START])

    def _read(self, pid: int | str, name: str) -> str | None:
        try:
            with open(f"{self._proc}/{pid}/{name}", "rb") as file:
                return file.read(_LIMIT).decode("utf-8", "replace")
        except OSError:
            return None
