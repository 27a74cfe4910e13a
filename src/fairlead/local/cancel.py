"""Cancel jobs: take queued ones out of the queue, end the processes of running ones."""

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fairlead.errors import LedgerError
from fairlead.job import JobKind, LocalJob, LocalState, ProcessRef
from fairlead.ledger.liveness import is_alive, seconds_since_boot
from fairlead.local.reap import CANCELLED, archive_ended
from fairlead.local.terminate import processes_of, send_signal, send_to_all
from fairlead.units import Seconds

if TYPE_CHECKING:
    from fairlead.history.store import JobHistory
    from fairlead.ledger.ledger import JobLedger

GRACE: Final = Seconds(10.0)
"""Between SIGTERM and SIGKILL."""
LAST_WAIT: Final = Seconds(10.0)
"""After SIGKILL: only a process inside the kernel, for instance in a driver, takes longer."""
NOT_ADOPTED: Final = "no longer adopted; its process runs on"
_AT_ONCE: Final = 64
"""Jobs that are cancelled under one hold of the lock: others wait for it."""
_STEP: Final = 0.1
"""Seconds between two looks at processes: their ends change no record if their runner is dead."""


class Cancellation:
    """One job of this user that is being cancelled."""

    def __init__(self, ledger: "JobLedger", job_id: str) -> None:
        self._ledger = ledger
        self.job_id = job_id
        self._processes: tuple[ProcessRef, ...] = ()
        """Those that were asked to end: no later process of the same pid is ever signalled."""
        self._group = False

    def request(self, job: LocalJob | None, *, kill: bool = False) -> bool:
        """Cancel a queued job, or ask the processes of a running one to end; False: it has ended already.

        Call it under the lock with the job as it is. With `kill` also the process of an adopted job is asked,
        which only leaves the list otherwise.
        """
        if job is None or job.state.ended:
            return False
        with suppress(LedgerError):  # a full disk: what fills it must end all the same, then as failed
            self._ledger.mark_cancelled(job.id)
        if job.kind is JobKind.ADOPTED and not kill:
            self._end(job, NOT_ADOPTED)
        elif job.state is LocalState.QUEUED and job.kind is JobKind.SUBMIT:
            self._end(job, CANCELLED)
        else:
            self._group = job.kind is JobKind.SUBMIT
            self._processes = self._targets(job)
            send_to_all(self._processes, signal.SIGTERM, self._ledger.root)
            if job.runner is not None:  # stopped with its command (Ctrl-Z), it could not record the end
                send_signal(job.runner, signal.SIGCONT, self._ledger.root)
        return True

    def kill(self) -> None:
        """Send SIGKILL to every process that still lives, and to what these have started since."""
        started = [
            member
            for ref in self._processes
            for member in processes_of(ref, group=self._group, root=self._ledger.root)
        ]
        self._processes = tuple(dict.fromkeys((*self._processes, *started)))
        send_to_all(self._processes, signal.SIGKILL, self._ledger.root)

    def is_over(self, jobs: Mapping[str, LocalJob]) -> bool:
        """Return whether the job has ended, and each process that was asked to."""
        job = jobs.get(self.job_id)
        return (job is None or job.state.ended) and not self.living()

    def living(self) -> tuple[ProcessRef, ...]:
        """Return the processes that were asked to end and still live."""
        return tuple(ref for ref in self._processes if is_alive(ref, self._ledger.root))

    def _targets(self, job: LocalJob) -> tuple[ProcessRef, ...]:
        root = self._ledger.root
        if job.state is LocalState.QUEUED:  # a `run` that waits: its own process
            return (job.runner,) if job.runner is not None else ()
        return () if job.command is None else processes_of(job.command, group=self._group, root=root)

    def _end(self, job: LocalJob, reason: str) -> None:
        ended = replace(job, state=LocalState.CANCELLED, reason=reason, ended=time.time())
        self._ledger.write(ended)


def cancel_jobs(
    ledger: "JobLedger",
    history: "JobHistory",
    job_ids: Sequence[str],
    *,
    grace: Seconds = GRACE,
    kill: bool = False,
    requested: Callable[[], None] = lambda: None,
) -> None:
    """Cancel jobs of this user and wait until they have ended; `requested` is called before the wait.

    LedgerError: a process did not end, not even by SIGKILL.
    """
    jobs = _own(ledger)
    # First those that wait: else they would start in the place of those that end.
    ordered = sorted(job_ids, key=lambda job_id: job_id in jobs and jobs[job_id].state is LocalState.RUNNING)
    pending: list[Cancellation] = []
    for start in range(0, len(ordered), _AT_ONCE):
        with ledger.locked():
            jobs = _own(ledger)
            asked = [Cancellation(ledger, job_id) for job_id in ordered[start : start + _AT_ONCE]]
            pending += [each for each in asked if each.request(jobs.get(each.job_id), kill=kill)]
    requested()
    pending = _wait(ledger, pending, grace)
    for cancellation in pending:
        cancellation.kill()
    pending = _wait(ledger, pending, LAST_WAIT)
    archive_ended(ledger, history)
    if pending:
        pids = ", ".join(str(ref.pid) for each in pending for ref in each.living()) or "its runner"
        raise LedgerError(
            f"job {pending[0].job_id}: these processes do not end: {pids}",
            "a process inside a driver ends when the driver lets it; `fairlead ps` shows the job until then",
        )


def _wait(ledger: "JobLedger", pending: Sequence[Cancellation], longest: Seconds) -> list[Cancellation]:
    """Return the cancellations that are not over after this time."""
    until = seconds_since_boot() + longest
    with ledger.watch() as watch:
        left = _unfinished(ledger, pending)
        while left and seconds_since_boot() < until:
            watch.wait(_STEP)
            left = _unfinished(ledger, left)
    return left


def _unfinished(ledger: "JobLedger", pending: Sequence[Cancellation]) -> list[Cancellation]:
    jobs = _own(ledger)
    return [each for each in pending if not each.is_over(jobs)]


def _own(ledger: "JobLedger") -> dict[str, LocalJob]:
    return {job.id: job for job in ledger.own_jobs()}
