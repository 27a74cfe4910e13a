"""A job of `run` from its record to its start: decide, wait for a change, decide again."""

import errno
import select
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Protocol

from fairlead.errors import LedgerError
from fairlead.job import LocalJob
from fairlead.ledger.ledger import JobLedger
from fairlead.ledger.liveness import seconds_since_boot
from fairlead.ledger.spec import JobSpec
from fairlead.ledger.watch import LedgerWatch
from fairlead.local.runner.alone import start_alone
from fairlead.local.runner.job_end import LockBusyError, give_up_lock
from fairlead.local.runner.overdue import OverdueStarts
from fairlead.local.runner.pacing import PROMPT, QueueChanges, recheck_after, wait_for_turn
from fairlead.local.runner.signals import CallerState, EndSignals
from fairlead.local.runner.start import NotStarted, RunningCommand, start_job
from fairlead.local.runner.use_recorder import MeasuredMachine
from fairlead.local.view import MachineView, QueuePlan, WaitDecision

REASON_PAUSE: Final = 60.0
"""Seconds between two records of why a job waits: each one wakes every waiting process."""
RETRY: Final = 5.0
"""Seconds until a record that found no space is tried again."""
FAULT_PATIENCE: Final = 60.0
"""Seconds for which a job waits for a healthy accelerator: a slow driver may still answer."""
_SIGNALLED: Final = 128
_OWN_FAILURE: Final = 125


@dataclass(frozen=True, slots=True)
class WaitEnd:
    """A job that will not start."""

    job: LocalJob | None
    """None: it is not recorded."""
    exit_code: int
    reason: str
    cancelled: bool = False


WaitAnswer = RunningCommand | WaitEnd | WaitDecision
"""What one decision leads to: the start, the end without one, or more waiting."""


class WaitReport(Protocol):
    """Shows the user why a job waits."""

    def waits(self, job: LocalJob, decision: WaitDecision) -> None:
        """Show the position of a job, the reason, and when it is expected to start."""

    def line(self, text: str) -> None:
        """Show one line about the wait itself."""


class QueueWait:
    """Waits until one job can start, and starts it."""

    def __init__(
        self,
        ledger: JobLedger,
        machine: MeasuredMachine,
        caller: CallerState,
        spec: JobSpec,
        report: WaitReport,
        clock: Callable[[], float] = seconds_since_boot,
    ) -> None:
        self._ledger = ledger
        self._machine = machine
        self._caller = caller
        self._spec = spec
        self._report = report
        self._clock = clock
        self._job: LocalJob | None = None
        self._changes = QueueChanges()
        self._due = 0.0
        self._overdue = OverdueStarts()
        self._reason, self._reason_due = "", 0.0
        self._faulty_since: float | None = None
        self.waited = False
        """Whether the job did not start with the first decision."""

    def start(self, enqueue: Callable[[], LocalJob], view: MachineView) -> RunningCommand | WaitEnd:
        """Record the job with `enqueue`, which is called under the lock; return it once it has started.

        The signals stay blocked after the return: the command's runner reads them.
        """
        if any(not job.state.ended for job in self._ledger.jobs()):
            import fairlead.local.queue  # noqa: F401, PLC0415  # under the lock, every other job waits for it
        with EndSignals(self._caller) as signals:
            answer = self._under_lock(lambda: self._decide(self._enqueued(enqueue), view), signals)
            if not isinstance(answer, WaitDecision):
                return answer
            self.waited = True
            with self._ledger.watch() as watch:
                return self._wait(self._enqueued(enqueue), answer, signals, watch)

    def _enqueued(self, enqueue: Callable[[], LocalJob]) -> LocalJob:
        if self._job is None:
            self._job = enqueue()
        return self._job

    def _under_lock(self, decide: Callable[[], WaitAnswer], signals: EndSignals) -> WaitAnswer:
        """Decide under the lock; while another process holds it, or the disk is full, signals are obeyed."""
        while True:
            try:
                with self._ledger.locked(give_up_lock):
                    return decide()
            except LockBusyError as busy:
                self._report.line(str(busy))
                pause = 0.0
            except LedgerError as error:
                if not _is_disk_full(error):
                    raise
                self._report.line(f"{error}; it waits for space")
                pause = RETRY
            signals.let_in()
            if signals.received is None:
                select.select((signals,), (), (), pause)
            signals.hold_off()
            if signals.received is not None:
                return _interrupted(self._job, signals.received)

    def _wait(
        self, job: LocalJob, decision: WaitDecision, signals: EndSignals, watch: LedgerWatch
    ) -> RunningCommand | WaitEnd:
        self._due = self._clock() + recheck_after(decision.position)
        answer = self._decide_again(job, decision, signals)  # for what changed before there was a watch
        while isinstance(answer, WaitDecision):
            if self._is_fault_lasting(answer):
                return WaitEnd(job, _OWN_FAILURE, answer.reason + _without_accelerator(job))
            self._report.waits(job, answer)
            self._record_reason(job, answer.reason)
            signals.let_in()
            if signals.received is None:
                wait_for_turn(watch, answer.position, (signals.fileno(),))
            signals.hold_off()
            if signals.received is not None:
                return _interrupted(job, signals.received)
            answer = self._decide_again(job, answer, signals)
        return answer

    def _is_fault_lasting(self, decision: WaitDecision) -> bool:
        """Return whether the job has waited for a healthy accelerator for long enough."""
        now = self._clock()
        self._faulty_since = (self._faulty_since or now) if decision.faulty else None
        return self._faulty_since is not None and now >= self._faulty_since + FAULT_PATIENCE

    def _decide_again(self, job: LocalJob, last: WaitDecision, signals: EndSignals) -> WaitAnswer:
        """Decide; far behind in the queue without the lock, under which only a start is decided once more."""
        jobs = self._ledger.jobs()
        now = self._clock()
        position = self._changes.position(jobs)
        if now < self._due and not self._changes.may_have_left_room(jobs, job):
            return replace(last, position=position)
        self._due = now + recheck_after(position)
        view = self._machine.view()
        decision = None if position <= PROMPT else self._plan(view, jobs, job).waits.get(job.id)
        if decision is None or decision.impossible:
            return self._under_lock(lambda: self._decide(job, view), signals)
        return decision

    def _decide(self, job: LocalJob, view: MachineView) -> WaitAnswer:
        """Decide under the lock, and start the job if it is planned to start."""
        plan = self._plan(view, self._ledger.jobs(), job)
        if job.id in plan.starts:
            answer = start_job(self._ledger, job, plan.starts[job.id], view, self._caller, self._spec)
            if isinstance(answer, NotStarted):
                return self._not_started(job, answer)
            return answer
        decision = plan.waits.get(job.id)
        if decision is None:
            raise LedgerError(f"the record of job {job.id} was removed while it was queued")
        if decision.impossible:
            return WaitEnd(job, _OWN_FAILURE, decision.reason)
        return decision

    def _plan(self, view: MachineView, jobs: Sequence[LocalJob], job: LocalJob) -> QueuePlan:
        now = self._clock()
        considered = self._overdue.without(jobs, job.id, now)
        if (start := start_alone(view, considered, job)) is not None:
            return QueuePlan({job.id: start})
        from fairlead.local.queue import plan_queue  # noqa: PLC0415  # the engine takes long to load

        plan = plan_queue(view, considered, reasons_for=(job.id,))
        self._overdue.note(plan.starts, considered, now)
        wait = plan.waits.get(job.id)
        self._changes.decided(jobs, wait.position if wait is not None else 1)
        return plan

    def _not_started(self, job: LocalJob, answer: NotStarted) -> WaitEnd | WaitDecision:
        if answer.exit_code is None:
            return WaitDecision(1, answer.reason)
        return WaitEnd(job, answer.exit_code, answer.reason)

    def _record_reason(self, job: LocalJob, reason: str) -> None:
        """Write why the job waits into its record, now and then."""
        now = self._clock()
        if reason == self._reason or now < self._reason_due:
            return
        self._reason, self._reason_due = reason, now + REASON_PAUSE
        with suppress(LedgerError, OSError):  # on a full disk the record stays as it is
            self._ledger.write(replace(job, reason=reason))


def _interrupted(job: LocalJob | None, number: int) -> WaitEnd:
    reason = f"cancelled by {signal.Signals(number).name} while it was queued"
    return WaitEnd(job, _SIGNALLED + number, reason, cancelled=True)


def _without_accelerator(job: LocalJob) -> str:
    """Return how a command runs that may need no accelerator: its user did not ask for one."""
    requested = job.requested
    asked = requested.gpus or requested.gpu_memory or requested.device or requested.model
    return "" if asked else "; --gpus 0 runs it without one"


def _is_disk_full(error: LedgerError) -> bool:
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in (errno.ENOSPC, errno.EDQUOT)
