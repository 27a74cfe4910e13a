"""MachineSource: reads this machine again and again, and shows it on the dashboard's board."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from fairlead.dashboard.answers import CancelAction, SourceInfo, WhyAnswer
from fairlead.dashboard.board import Board
from fairlead.dashboard.row_types import ApiAnswer, AugmentationRow
from fairlead.dashboard.source import DashboardSource
from fairlead.errors import AccessError
from fairlead.inventory import Inventory
from fairlead.job import LocalJob, LocalState
from fairlead.local.dashboard.rows import accelerator_rows, job_reason, job_row, machine_row, proposal_row
from fairlead.local.status import LocalStatus
from fairlead.local.status_reader import StatusReader, open_reader
from fairlead.rightsize.local import LocalRecommendation, local_report
from fairlead.rightsize.recommend import DEFAULT_RISK
from fairlead.units import Seconds, format_duration

if TYPE_CHECKING:
    from fairlead.history.store import JobHistory

PERIOD: Final = Seconds(1.0)
_MOST_ENDED: Final = 100
"""Ended jobs of this user that are shown."""
_OLDEST: Final = 60.0
"""Seconds for which the inventory counts."""
_COMMANDS: Final = {
    "nodes": "fairlead detect",
    "devices": "fairlead top",
    "workloads": "fairlead ps -a",
    "augmentations": "fairlead augment list --local",
    "proposals": "fairlead rightsize --local",
    "models": "fairlead estimate MODEL",
}


class Reading(NamedTuple):
    """What one look at the machine gives."""

    status: LocalStatus
    inventory: Inventory
    ended: tuple[LocalJob, ...]
    advised: tuple[LocalRecommendation, ...] = ()
    sessions: Sequence[AugmentationRow] = ()


class MachineSource(DashboardSource):
    """One machine: its accelerators and its jobs, from the ledger."""

    def __init__(
        self,
        environ: Mapping[str, str],
        clock: Callable[[], float] = time.time,
        *,
        reader: StatusReader | None = None,
        name: str = "",
        sessions: Callable[[], Sequence[AugmentationRow]] = tuple,
    ) -> None:
        """Show what `sessions` returns as the slices that this machine lends."""
        self.name = name or os.uname().nodename
        super().__init__(Board(_COMMANDS, clock), SourceInfo(kind="machine", name=self.name))
        self._environ = environ
        self._sessions = sessions
        self._reader = reader or open_reader(environ)
        self._history: JobHistory | None = None
        self._inventory: tuple[float, Inventory] | None = None
        self._advised: tuple[float, tuple[LocalRecommendation, ...]] | None = None
        self._status: LocalStatus | None = None
        self._jobs: dict[str, LocalJob] = {}

    @property
    def ready(self) -> bool:
        """Whether the machine has been read once."""
        return self._status is not None

    @asynccontextmanager
    async def running(self) -> "AsyncIterator[asyncio.Future[None]]":
        """Read the machine every second, in a thread of its own: a driver may take its time."""
        with ThreadPoolExecutor(1, "machine") as thread:
            task = asyncio.create_task(self._follow(thread))
            try:
                yield asyncio.get_running_loop().create_future()
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                thread.submit(self._reader.close).result()

    async def _follow(self, thread: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                self.show(await loop.run_in_executor(thread, self.read))
                self.board.heal("machine")
            except Exception as error:  # noqa: BLE001 - whatever fails, the next look may succeed
                why = f"this machine cannot be read: {type(error).__name__}: {error}"
                self.board.set_stale("machine", why, _COMMANDS)
            await asyncio.sleep(max(0.1, PERIOD - (loop.time() - began)))

    def read(self) -> Reading:
        """Return the machine as it is now; this blocks."""
        status = self._reader.read()
        return Reading(status, self._inventory_of(), self._ended(), self._advice(), self._sessions())

    def _inventory_of(self) -> Inventory:
        """Return what the machine has, at most a minute old: only the processor is read from it."""
        now = time.monotonic()
        if self._inventory is None or now - self._inventory[0] > _OLDEST:
            self._inventory = now, self._reader.inventory()
        return self._inventory[1]

    def _ended(self) -> tuple[LocalJob, ...]:
        """Return the jobs of this user that ended last; a state directory may appear with the first job."""
        ledger = self._reader.ledger
        if ledger is None:
            self._reader.reopen(self._environ)
            return ()
        if not os.path.isdir(ledger.place.private):
            return ()
        if self._history is None:
            from fairlead.history.store import JobHistory  # noqa: PLC0415  # SQLite, once there are jobs

            self._history = JobHistory.open(ledger.place, self._environ)
        return self._history.jobs(_MOST_ENDED)

    def _advice(self) -> tuple[LocalRecommendation, ...]:
        """Return what the history of this user proposes, at most a minute old."""
        now = time.monotonic()
        if self._history is not None and (self._advised is None or now - self._advised[0] > _OLDEST):
            learned = self._history.all_learned()
            self._advised = now, local_report(learned, DEFAULT_RISK, time.time()).changes
        return self._advised[1] if self._advised is not None else ()

    def show(self, reading: Reading) -> None:
        """Put a reading on the board."""
        status, now = reading.status, self.board.clock()
        self._status = status
        jobs = {job.id: job for job in (*reading.ended, *status.jobs)}
        self._jobs = jobs
        if status.view is not None:
            self.board.replace("nodes", [machine_row(self.name, status.view)])
        self.board.replace("devices", accelerator_rows(self.name, status, reading.inventory, now))
        self.board.replace("proposals", map(proposal_row, reading.advised))
        self.board.replace("augmentations", reading.sessions)
        self.board.replace("workloads", [job_row(self.name, job, status) for job in jobs.values()])

    async def why(self, key: str) -> WhyAnswer | None:
        """Return why a job waits or ended, by the plan of the queue."""
        job, status = self._jobs.get(key), self._status
        if job is None or status is None:
            return None
        return why_job(job, status, self.board.clock())

    async def act(self, action: ApiAnswer, token: str) -> str | None:
        """Cancel a job of this user."""
        if not isinstance(action, CancelAction):
            return None
        job = self._jobs.get(action.workload)
        if job is None or job.state.ended:
            return None
        await asyncio.to_thread(self._cancel, job)
        return f"job {job.id} is cancelled"

    def _cancel(self, job: LocalJob) -> None:
        from fairlead.history.store import JobHistory  # noqa: PLC0415  # SQLite, once there are jobs
        from fairlead.local.cancel import cancel_jobs  # noqa: PLC0415  # only where that is allowed

        ledger = self._reader.ledger
        if ledger is None or job.uid != ledger.place.uid:
            raise AccessError(f"job {job.id} is {job.user}'s", "ask them to cancel it")
        cancel_jobs(ledger, JobHistory.open(ledger.place, self._environ), [job.id])


def why_job(job: LocalJob, status: LocalStatus, now: float) -> WhyAnswer:
    """Return the explanation of a job."""
    running = job.state is LocalState.RUNNING
    wait = status.waits.get(job.id)
    notes = [f"its size: {job.assumed.source}"] if job.assumed.source else []
    if wait is not None and wait.starts_in is not None and not wait.impossible:
        notes.append(f"it starts in about {format_duration(wait.starts_in)}")
    if wait is not None and wait.impossible:
        notes.append("no wait will help: it needs more than the machine has")
    where = f"runs on {job.device or 'cpu'}" if running else job_reason(job, status) or job.state.value
    return WhyAnswer(
        key=job.id,
        fits=running or job.id in status.starts,
        state=job.state.value,
        summary=f"{job.name} {where}" if running else where,
        notes=tuple(notes),
        decided=now,
        source="the queue's plan",
        command="fairlead ps",
    )
