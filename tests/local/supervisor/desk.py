"""A user's desk for tests: submit jobs to real processes, watch them, and end them all."""

import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fairlead.cli.local.job_options import JobOptions
from fairlead.cli.local.submission import submit_all
from fairlead.history.store import JobHistory
from fairlead.host import Host
from fairlead.job import JobKind, LocalJob, LocalState, ProcessRef, Requested
from fairlead.ledger import JobLedger, JobSpec, StateDirectory, boot_id, seconds_since_boot
from fairlead.local.machine import LocalMachine
from fairlead.local.reap import archive_ended
from fairlead.local.supervisor import ensure_supervisor

LIMIT = 60.0
"""Seconds after which a wait fails the test."""
INVENTORY = "inventory.json"


class Desk:
    """One user with a state directory of their own."""

    def __init__(self, folder: Path, inventory: Path | None = None) -> None:
        self.folder = folder
        self.state = folder / "state"
        own = {
            name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "FAIRLEAD_"))
        }
        self.environ = {**own, "FAIRLEAD_STATE": str(self.state), "HOME": str(folder), "NO_COLOR": "1"}
        self.place = StateDirectory.open(self.environ)
        if inventory is not None:  # a scan of the machine takes longer than a test
            shutil.copyfile(inventory, Path(self.place.private) / INVENTORY)
        self.ledger = JobLedger(self.place)
        self.history = JobHistory.open(self.place, self.environ)

    def cores(self) -> float:
        """Return the cores of this machine: a job that requests them all runs alone."""
        return LocalMachine(Host("/"), self.place).view().cpu / 1000

    def submit(self, script: str, cpus: float | None = None, after: tuple[str, ...] = ()) -> str:
        """Submit a script of the shell as the command does, and return the id."""
        options = JobOptions(("sh", "-c", script), Requested(cpus=cpus), "job", after=after)
        return submit_all([options], self.environ)[0].id

    def add(self, kind: JobKind = JobKind.SUBMIT, runner: ProcessRef | None = None) -> LocalJob:
        """Record a queued job, and start nothing."""
        with self.ledger.locked():
            return self.ledger.add(
                self.draft(JobOptions(("true",), name="job"), kind, runner), JobSpec(("true",), "/")
            )

    def draft(
        self, options: JobOptions, kind: JobKind = JobKind.SUBMIT, runner: ProcessRef | None = None
    ) -> LocalJob:
        """Return a queued job that is not recorded."""
        now, boot = time.time(), seconds_since_boot()
        return LocalJob(
            "", 0, options.name, 0, "", kind, LocalState.QUEUED, now, boot, boot_id(), runner=runner
        )

    def job(self, job_id: str) -> LocalJob:
        """Return a job from the ledger, or from the history."""
        return next(job for job in (*self.ledger.own_jobs(), *self.history.jobs(5000)) if job.id == job_id)

    def wait(self, job_id: str, state: LocalState | None = None) -> LocalJob:
        """Wait until a job has this state, or any end."""

        def arrived() -> bool:
            archive_ended(self.ledger, self.history)
            now = self.job(job_id).state
            return now is state if state else now.ended

        wait_until(arrived, f"job {job_id} to be {state or 'over'}: {self.job(job_id)}")
        return self.job(job_id)

    def processes(self) -> list[int]:
        """Return the living processes that belong to this desk: supervisor, runners and commands."""
        return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if self._is_ours(pid)]

    def _is_ours(self, pid: int) -> bool:
        with suppress(OSError):
            return pid != os.getpid() and os.fsencode(self.state) in Path(f"/proc/{pid}/environ").read_bytes()
        return False

    def supervisor(self) -> int | None:
        """Return the process that holds the supervisor's lock."""
        lock = Path(self.place.private) / "supervisor.lock"
        for pid in self.processes():
            with suppress(OSError):
                handles = os.listdir(f"/proc/{pid}/fd")
                if any(os.readlink(f"/proc/{pid}/fd/{handle}") == str(lock) for handle in handles):
                    return pid
        return None

    def next_command(self) -> None:
        """Do what each command of the user does: start a supervisor where submits wait and none runs."""
        ensure_supervisor(self.ledger, self.environ)

    def end(self) -> None:
        """End every process of this desk, and check that none is left."""
        for _ in range(1000):
            pids = self.processes()
            if not pids:
                return
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        raise AssertionError(f"processes are left: {self.processes()}")


def wait_until(arrived: Callable[[], bool], what: str) -> None:
    """Wait until something has happened."""
    end = time.monotonic() + LIMIT
    while not arrived():
        if time.monotonic() > end:
            raise AssertionError(f"waited {LIMIT:g} s for {what}")
        time.sleep(0.01)
