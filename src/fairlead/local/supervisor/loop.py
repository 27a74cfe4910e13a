"""Supervisor: starts the submitted jobs of one user, one decision at a time, until none waits."""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import starmap
from typing import Final, Protocol

from fairlead.errors import FairleadError, LedgerError
from fairlead.history.store import JobHistory
from fairlead.job import LocalJob, LocalState
from fairlead.ledger.ledger import JobLedger
from fairlead.ledger.liveness import seconds_since_boot
from fairlead.local.background.lock import ProcessLock
from fairlead.local.queue import plan_queue
from fairlead.local.reap import archive_ended, requeue_unstarted
from fairlead.local.runner.detached import start_detached
from fairlead.local.runner.start import NotStarted
from fairlead.local.supervisor.start import is_waiting
from fairlead.local.view import MachineView, QueuePlan, WaitDecision
from fairlead.units import Seconds

MOST_STARTS: Final = 8
"""Jobs that start under one hold of the lock: other users wait for it."""
MOST_STARTS_ALONE: Final = 64
"""Likewise, where no other user has a job."""
SHORTEST_PAUSE: Final = Seconds(0.5)
LONGEST_PAUSE: Final = Seconds(5.0)
PAUSE_FACTOR: Final = 100
"""Where no job came, started or ended, a decision follows after this many times the processor time of the
last one: waiting costs a hundredth of a core at most."""
RETRY: Final = Seconds(5.0)
"""After which a start that could not be recorded is tried again."""
BETWEEN_REASONS: Final = Seconds(10.0)
MOST_REASONS: Final = 8
"""Jobs at the front of the queue whose reasons are recorded: each write wakes every waiting process."""


class MachineReader(Protocol):
    """Returns the machine as it is now."""

    def view(self) -> MachineView:
        """Return the machine as it is now."""
        ...


class Supervisor:
    """Starts the submitted jobs of one user; every decision is made under the ledger's lock."""

    def __init__(
        self,
        ledger: JobLedger,
        history: JobHistory,
        machine: MachineReader,
        lock: ProcessLock,
        environ: Mapping[str, str],
        log: Callable[[str], None],
        is_recording: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_recording` returns whether the process that started this one has submits left to record."""
        self._ledger = ledger
        self._history = history
        self._machine = machine
        self._lock = lock
        self._environ = environ
        self._log = log
        self._is_recording = is_recording
        self._seen: frozenset[tuple[str, LocalState, bool]] = frozenset()
        """The jobs at the last decision that had not ended, and whether each was still to be measured."""
        self._due = 0.0
        self._retries: dict[str, float] = {}
        self._reasons_due = 0.0
        self._runners: set[int] = set()
        self._started: set[str] = set()
        """The jobs that the last decision has started."""

    def pause(self) -> Seconds:
        """Return how long to wait for a change of the ledger before the next decision."""
        return Seconds(max(0.0, self._due - seconds_since_boot()))

    def reap(self) -> None:
        """Reap the runners that have ended, and no other child: their records say how their jobs ended."""
        for pid in tuple(self._runners):
            with suppress(ChildProcessError):
                if not os.waitpid(pid, os.WNOHANG)[0]:
                    continue
            self._runners.discard(pid)

    def decide(self) -> bool:
        """Start what can start; False: no submit waits, the lock is released and this process must end."""
        self._require_place()
        try:
            return self._decide()
        except (FairleadError, OSError):
            self._require_place()  # gone meanwhile: that is the reason, not the file that was missed
            raise

    def _require_place(self) -> None:
        if not self._lock.is_in_place():
            raise LedgerError(f"{self._ledger.place.private}: it was removed or replaced")

    def _decide(self) -> bool:
        began = time.process_time()
        jobs = self._ledger.jobs()
        seen = frozenset((job.id, job.state, job.measured is None) for job in jobs if not job.state.ended)
        changed = seen != self._seen
        if not changed and seconds_since_boot() < self._due:
            return True  # only amounts changed that were measured before
        self._started.clear()
        own = [job for job in jobs if job.uid == self._ledger.place.uid]
        self._tidy(own)
        view = self._machine.view()
        # Without other users no process waits for the lock: a change is acted on at once.
        alone = len(own) == len(jobs)
        if ((changed and alone) or self._must_act(view, jobs)) and not self._act(view):
            return False
        cost = PAUSE_FACTOR * (time.process_time() - began)
        self._seen = frozenset(
            (name, LocalState.RUNNING if name in self._started else state, unmeasured)
            for name, state, unmeasured in seen
        )
        self._due = seconds_since_boot() + min(LONGEST_PAUSE, max(SHORTEST_PAUSE, cost))
        return True

    def _tidy(self, own: Sequence[LocalJob]) -> None:
        try:
            requeue_unstarted(self._ledger, own)
            archive_ended(self._ledger, self._history, own)
        except (LedgerError, OSError) as error:  # a full disk: jobs that can start still do
            self._log(f"ended jobs are not archived: {error}")

    def _must_act(self, view: MachineView, jobs: Sequence[LocalJob]) -> bool:
        """Plan without the lock: most plans start nothing, and other processes wait for the lock."""
        own = self._waiting(jobs)
        if not own:
            return not self._is_recording()
        plan = plan_queue(view, jobs)
        waits = [(job, plan.waits[job.id]) for job in own.values() if job.id in plan.waits]
        return (
            not plan.starts.keys().isdisjoint(own)
            or any(wait.impossible for _, wait in waits)
            or (seconds_since_boot() >= self._reasons_due and any(starmap(_has_news, waits)))
        )

    def _act(self, view: MachineView) -> bool:
        """Plan under the lock, and start, fail or annotate own jobs; False: none waits."""
        with self._ledger.locked(self._log):
            jobs = self._ledger.jobs()
            own = self._waiting(jobs)
            if not own:
                if self._is_recording():
                    return True
                self._require_place()  # a folder that is gone has no jobs either
                self._lock.close()  # under the ledger's lock: a later submit starts another supervisor
                return False
            plan = plan_queue(view, jobs)
            alone = all(job.uid == self._ledger.place.uid for job in jobs)
            most = MOST_STARTS_ALONE if alone else MOST_STARTS
            self._start([own[job_id] for job_id in plan.starts if job_id in own], plan, view, most)
            self._record_waits([(own[job_id], wait) for job_id, wait in plan.waits.items() if job_id in own])
        return True

    def _waiting(self, jobs: Iterable[LocalJob]) -> dict[str, LocalJob]:
        uid = self._ledger.place.uid
        return {job.id: job for job in jobs if job.uid == uid and is_waiting(job.kind, job.state)}

    def _start(self, jobs: Sequence[LocalJob], plan: QueuePlan, view: MachineView, most: int) -> None:
        now = seconds_since_boot()
        ready = [job for job in jobs if self._retries.get(job.id, 0.0) <= now][:most]
        starts = [(job, plan.starts[job.id]) for job in ready]
        answers = start_detached(self._ledger, starts, view, self._environ)
        for job, answer in zip(ready, answers, strict=True):
            if not isinstance(answer, NotStarted):
                self._runners.add(answer.pid)
                self._started.add(job.id)
                self._retries.pop(job.id, None)
            elif answer.exit_code is not None:
                self._fail(job, answer.reason, answer.exit_code)
            else:
                self._retries[job.id] = now + RETRY
                self._log(f"job {job.id} waits: {answer.reason}")

    def _record_waits(self, waits: Sequence[tuple[LocalJob, WaitDecision]]) -> None:
        for job, wait in waits:
            if wait.impossible:
                self._fail(job, wait.reason)
        now = seconds_since_boot()
        changed = [(job, wait) for job, wait in waits if _has_news(job, wait)]
        if changed and now >= self._reasons_due:
            self._reasons_due = now + BETWEEN_REASONS
            for job, wait in changed:
                self._write(replace(job, reason=wait.reason))

    def _fail(self, job: LocalJob, reason: str, exit_code: int | None = None) -> None:
        failed = replace(
            job, state=LocalState.FAILED, ended=time.time(), exit_code=exit_code, reason=reason, shares=()
        )
        self._write(failed)

    def _write(self, job: LocalJob) -> None:
        try:
            self._ledger.write(job)
        except (LedgerError, OSError) as error:  # a full disk: the next decision tries again
            self._log(f"job {job.id}: {error}")


def _has_news(job: LocalJob, wait: WaitDecision) -> bool:
    """Return whether the reason why a job waits is to be recorded: `ps` plans by itself."""
    return not wait.impossible and wait.position <= MOST_REASONS and wait.reason != job.reason
