"""StatusReader: reads the jobs and the machine again and again, and plans the queue only when it must."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from fairlead.errors import LedgerError
from fairlead.inventory import Inventory, Machine
from fairlead.job import LocalJob, LocalState
from fairlead.ledger.ledger import JobLedger
from fairlead.ledger.liveness import seconds_since_boot
from fairlead.ledger.place import StateDirectory, state_path, user_folder
from fairlead.ledger.users import user_name
from fairlead.local.processes import children_of, process_name, process_uid
from fairlead.local.status import ForeignProcess, LocalStatus, foreign_processes, with_adopted_use
from fairlead.local.view import MachineView, QueuePlan
from fairlead.units import Seconds, pluralize

if TYPE_CHECKING:
    from fairlead.local.machine import LocalMachine

PLAN_PERIOD: Final = Seconds(5)
"""A plan is made again at the latest after this: the measured use of running jobs changes it."""
_MOST_SKIPPED: Final = 3
"""Records that are named because they were not read."""
_FOREIGN_PERIOD: Final = Seconds(5)
_Shape = tuple[tuple[str, str, int, str], ...]


class StatusReader:
    """Reads what `ps` and `top` show; it writes nothing."""

    def __init__(
        self, ledger: JobLedger | None, machine: "LocalMachine | None", warnings: tuple[str, ...] = ()
    ) -> None:
        self.ledger = ledger
        """None: no job was ever recorded on this machine."""
        self._machine = machine
        self._warnings = warnings
        """Not empty: the state directory can only be read."""
        self._plan = QueuePlan()
        self._planned_for: _Shape = ()
        self._planned_at = float("-inf")
        self._foreign: tuple[ForeignProcess, ...] = ()
        self._foreign_for: frozenset[object] = frozenset()
        self._foreign_at = float("-inf")

    def read(self) -> LocalStatus:
        """Return the status now; jobs that have ended and are not archived yet are part of it."""
        now = seconds_since_boot()
        jobs, problems = self._jobs()
        view = self._machine.view() if self._machine is not None else None
        if view is not None:
            jobs = with_adopted_use(jobs, view)
        plan = self._plan_for(jobs, view, now)
        return LocalStatus(
            jobs,
            now,
            view,
            plan.waits,
            plan.starts,
            self._foreign_of(view, jobs, now),
            (*self._warnings, *problems, *(view.problems if view is not None else ())),
        )

    @property
    def read_only(self) -> bool:
        """Whether the state directory cannot be written by this user."""
        return bool(self._warnings)

    def inventory(self) -> Inventory:
        """Return what the machine has, its processor included; nothing where the machine is not read."""
        return self._machine.inventory() if self._machine is not None else Inventory(Machine())

    def reopen(self, environ: Mapping[str, str]) -> None:
        """Open the ledger, if one was made since: the first job of a machine makes it."""
        if self.ledger is None:
            self.ledger, self._warnings = _open_ledger(environ)

    def close(self) -> None:
        """Release the drivers."""
        if self._machine is not None:
            self._machine.close()

    def _jobs(self) -> tuple[tuple[LocalJob, ...], tuple[str, ...]]:
        if self.ledger is None:
            return (), ()
        try:
            jobs, place = self.ledger.jobs(), self.ledger.place
            skipped = [
                line for line in self.ledger.skipped() if os.path.isdir(place.own) or place.own not in line
            ]
            more = len(skipped) - _MOST_SKIPPED
            rest = (f"{pluralize(more, 'more record')} were not read",) if more > 0 else ()
            return jobs, (*skipped[:_MOST_SKIPPED], *rest)
        except (LedgerError, OSError) as error:
            return (), (f"the jobs cannot be read: {error}",)

    def _plan_for(self, jobs: tuple[LocalJob, ...], view: MachineView | None, now: float) -> QueuePlan:
        """Return the plan of the queue; without numpy, or without the machine, there is none."""
        live = tuple(job for job in jobs if not job.state.ended)
        shape = tuple((job.id, job.state.value, job.priority, job.device or "") for job in live)
        if view is None or not any(job.state is LocalState.QUEUED for job in live):
            return QueuePlan()
        if shape == self._planned_for and now - self._planned_at < PLAN_PERIOD:
            return self._plan
        try:
            from fairlead.local.queue import plan_queue  # noqa: PLC0415  # needs numpy
        except ModuleNotFoundError:
            return QueuePlan()
        self._plan, self._planned_for, self._planned_at = plan_queue(view, live), shape, now
        return self._plan

    def _foreign_of(
        self, view: MachineView | None, jobs: tuple[LocalJob, ...], now: float
    ) -> tuple[ForeignProcess, ...]:
        """Return the GPU processes of others; a pass over /proc is made only when there are any."""
        if view is None:
            return ()
        pids = (process.pid for device in view.devices for process in device.processes or ())
        running = (job.id for job in jobs if job.state is LocalState.RUNNING)
        known = frozenset[object]([*pids, *running])
        if known != self._foreign_for or now - self._foreign_at >= _FOREIGN_PERIOD:
            children = children_of() if any(device.processes for device in view.devices) else {}
            self._foreign = foreign_processes(view, jobs, children, _describe, _groups)
            self._foreign_for, self._foreign_at = known, now
        return self._foreign


def open_reader(environ: Mapping[str, str], *, machine: bool = True) -> StatusReader:
    """Return a reader of this machine; a state directory that is missing or cannot be written is no error."""
    ledger, warnings = _open_ledger(environ)
    if not machine:
        return StatusReader(ledger, None, warnings)
    from fairlead.host import Host  # noqa: PLC0415  # some commands read the records alone
    from fairlead.local.machine import LocalMachine  # noqa: PLC0415

    place = ledger.place if ledger is not None and not warnings else None
    return StatusReader(ledger, LocalMachine(Host("/"), place), warnings)


def _open_ledger(environ: Mapping[str, str]) -> tuple[JobLedger | None, tuple[str, ...]]:
    """Return the ledger, and a line if its records can only be read."""
    path = state_path(environ)
    if not os.path.isdir(path):
        return None, ()
    try:
        return JobLedger(StateDirectory.open(environ)), ()
    except LedgerError as error:
        own = os.path.join(path, user_folder(os.geteuid()))
        place = StateDirectory(
            path, os.geteuid(), own, os.path.join(own, "jobs"), os.path.join(own, "private")
        )
        return JobLedger(place), (f"read-only: {error}",)


def _describe(pid: int) -> tuple[str, int | None, str]:
    uid = process_uid(pid)
    return process_name(pid), uid, "" if uid is None else user_name(uid)


def _groups(pid: int) -> tuple[int, ...]:
    try:
        return os.getpgid(pid), os.getsid(pid)
    except OSError:
        return ()
