"""The processes of one job: the command's tree. Of /proc, a scan reads only what is new.

A job's processes are the command, its descendants, and the members of its session or process group where the
command leads one. A member stays one after its parent has ended. Processes that a daemon starts for the
command (`docker run`) descend from that daemon: they are not part of the job.
"""

import os
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from fairlead.job import ProcessRef
from fairlead.ledger.liveness import shifted_ticks
from fairlead.local.processes import all_pids, descendants
from fairlead.units import Bytes

_LIMIT: Final = 4096
"""Bytes of a file that are read."""
_FORGET_AFTER: Final = 64
"""Scans after which every process is read again: a pid can belong to another process by then."""
_PARENT, _GROUP, _SESSION, _TIMES, _START = 1, 2, 3, 11, 19
"""Places in /proc/PID/stat after the name of the program, which may contain anything."""
_TIME_FIELDS: Final = 4
"""User and system time of the process, then of its ended children."""


class ProcessStat(NamedTuple):
    """One process, from /proc/PID/stat."""

    pid: int
    parent: int
    group: int
    session: int
    start: int
    ticks: int
    """CPU time, with that of ended children."""


class JobProcesses:
    """The processes of one job, followed from scan to scan."""

    def __init__(self, command: ProcessRef, root: str = "/", earlier: Collection[int] = ()) -> None:
        """`earlier` are pids from before the command's process was made: they are not read at first."""
        self._command = command
        self._root = root
        self._proc = os.path.join(root, "proc")
        self._shift = shifted_ticks(root)
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._members: dict[int, int] = {command.pid: command.start}
        """The start of each member, by pid."""
        self._others = set(earlier) - {command.pid}
        """Pids that are known to belong to other processes: they are not read again."""
        self._scans = 0
        self._group = self._session = 0
        """What the command leads; 0: none."""

    def scan(self) -> dict[int, ProcessStat]:
        """Return the members that live, by pid."""
        pids = all_pids(self._root)
        self._scans += 1
        if self._scans % _FORGET_AFTER == 0:
            self._others.clear()
        self._others &= pids
        alive = self._alive(pids)
        fresh = {}
        for pid in pids - self._others - alive.keys():
            stat = self._stat(pid)
            if stat is not None:
                fresh[pid] = stat
        self._join(fresh, alive)
        self._others |= fresh.keys() - alive.keys()
        self._members = {pid: stat.start for pid, stat in alive.items()}
        return alive

    def memory(self, pids: Iterable[int]) -> Bytes:
        """Return the RAM that processes hold: what each has alone, and the largest shared part once.

        The kernel's proportional size (PSS) would walk the page tables of every process at each sample.
        """
        alone = shared = 0
        for pid in pids:
            fields = self._read(f"{pid}/statm").split()
            if len(fields) > 2 and fields[1].isdigit() and fields[2].isdigit():  # resident, shared
                alone += max(0, int(fields[1]) - int(fields[2]))
                shared = max(shared, int(fields[2]))
        return Bytes((alone + shared) * self._page)

    def _alive(self, pids: Collection[int]) -> dict[int, ProcessStat]:
        alive = {}
        for pid, start in self._members.items():
            stat = self._stat(pid) if pid in pids else None
            if stat is not None and stat.start == start:
                alive[pid] = stat
        leader = alive.get(self._command.pid)
        if leader is not None:
            self._group = leader.pid if leader.group == leader.pid else 0
            self._session = leader.pid if leader.session == leader.pid else 0
        return alive

    def _join(self, fresh: dict[int, ProcessStat], alive: dict[int, ProcessStat]) -> None:
        """Add to the members that live those of the fresh processes that belong to them."""
        children: dict[int, tuple[int, ...]] = {}
        roots = set(alive)
        for pid, stat in fresh.items():
            children[stat.parent] = (*children.get(stat.parent, ()), pid)
            started_later = stat.start >= self._command.start
            if started_later and (stat.group == self._group or stat.session == self._session):
                roots.add(pid)
        for root in roots:
            for pid in descendants(root, children):
                if pid in fresh:
                    alive[pid] = fresh[pid]

    def _stat(self, pid: int) -> ProcessStat | None:
        fields = self._read(f"{pid}/stat").rpartition(b")")[2].split()
        if len(fields) <= _START:
            return None
        try:
            ticks = sum(map(int, fields[_TIMES : _TIMES + _TIME_FIELDS]))
            parent, group, session = map(int, fields[_PARENT : _SESSION + 1])
            return ProcessStat(pid, parent, group, session, int(fields[_START]) - self._shift, ticks)
        except ValueError:
            return None

    def _read(self, path: str) -> bytes:
        try:
            handle = os.open(f"{self._proc}/{path}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            return os.read(handle, _LIMIT)
        except OSError:
            return b""
        finally:
            os.close(handle)
