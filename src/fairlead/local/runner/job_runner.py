"""JobRunner: one started job until its end: signals, measured use, timeout, the ended record, the history."""

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from typing import Final

from fairlead.job import LocalJob
from fairlead.ledger.ledger import JobLedger
from fairlead.ledger.liveness import seconds_since_boot
from fairlead.limiter import overuse
from fairlead.limiter.cgroup import JobCgroup
from fairlead.local.runner.command import CommandFailure
from fairlead.local.runner.confine import confine, killed_reason
from fairlead.local.runner.job_end import JobEnding, end_job
from fairlead.local.runner.process_end import GRACE, CommandEnd, Termination
from fairlead.local.runner.signal_queue import ReceivedSignal, SignalQueue
from fairlead.local.runner.signals import STOPS, CallerState
from fairlead.local.runner.start import OWN_FAILURE, RunningCommand
from fairlead.local.runner.use_recorder import MeasuredMachine, UseRecorder
from fairlead.local.runner.watchdog import Watchdog
from fairlead.units import format_duration

_FROM_KERNEL: Final = 0
"""A signal with a code above this comes from the kernel: the terminal sent it to the foreground group."""
_LONGEST_WAIT: Final = 60.0


class JobRunner:
    """Waits for the command of a started job, and records what it used and how it ended."""

    def __init__(
        self,
        ledger: JobLedger,
        running: RunningCommand,
        caller: CallerState,
        environ: Mapping[str, str],
        notify: Callable[[str], None],
        machine: MeasuredMachine | None = None,
        clock: Callable[[], float] = seconds_since_boot,
    ) -> None:
        self._ledger = ledger
        self._running = running
        self._job = running.job
        self._caller = caller
        self._environ = environ
        self._notify = notify
        self._machine = machine
        self._clock = clock
        assert running.job.command is not None
        self._command = running.job.command
        self._mps = running.mps
        self._recorder = UseRecorder(ledger, running.job, environ, machine, clock, running.earlier)
        self._watchdog = Watchdog(running.job, self._recorder.held, clock)
        timeout, started = running.job.timeout, running.job.started_boot
        self._timeout_at = None if timeout is None or started is None else started + timeout
        self._termination: Termination | None = None
        self._killed = ""
        self._mps_ended = False
        self.failure: CommandFailure | None = None
        """Why the command could not be executed; None: it was."""
        self.lost_device = ""
        """Why its accelerator was lost while it ran; empty: it was not."""

    @property
    def terminated(self) -> bool:
        """Whether the command was made to end: by its timeout or limit, or with its GPU or MPS daemon."""
        return self._termination is not None or self._mps_ended

    def run_until_end(self) -> LocalJob:
        """Execute the command and wait for its end; return the ended job, recorded and archived."""
        cgroup = confine(self._job)
        self.failure = self._running.release(self._caller)
        if self.failure is not None and self.failure.exit_code == OWN_FAILURE:
            self._leave(cgroup)
            return self._end_unstarted(self.failure)
        with closing(SignalQueue(self._caller.handled)) as signals:
            end = self._wait_for_end(signals)
        if self._termination is not None:
            self._termination.finish(self._clock)
        self._leave(cgroup)
        recorder = self._recorder
        outcome = None if self.failure else recorder.finish(end.usage)
        code = end.exit_code if self.failure is None else self.failure.exit_code
        cancelled = self._ledger.is_cancelled(self._job.id)
        ending = JobEnding(code, "cancelled" if cancelled else self._reason(end), cancelled, outcome)
        return self._end(ending)

    def _leave(self, cgroup: JobCgroup | None) -> None:
        """Remove the job's cgroup, and keep whether the kernel killed a process in it."""
        if cgroup is not None:
            self._killed = killed_reason(self._job) if cgroup.was_killed() else ""
            cgroup.remove()

    def _end_unstarted(self, failure: CommandFailure) -> LocalJob:
        """Record that the command was never executed: its process has ended."""
        cancelled = self._ledger.is_cancelled(self._job.id)
        reason = "cancelled" if cancelled else failure.reason
        return self._end(JobEnding(failure.exit_code, reason, cancelled))

    def _end(self, ending: JobEnding) -> LocalJob:
        ended = end_job(self._ledger, self._recorder.job, ending, self._environ, self._notify)
        self._recorder.close()
        if self._mps is not None:
            self._mps.close()
        return ended

    def _wait_for_end(self, signals: SignalQueue) -> CommandEnd:
        while True:
            wait = min(max(0.0, self._due() - self._clock()), _LONGEST_WAIT)
            if (received := signals.wait(wait)) is not None:
                self._on_signal(received)
            if (end := self._reap()) is not None:
                return end
            self._on_time()

    def _due(self) -> float:
        """Return when something is to be done though no signal arrives."""
        moments = [self._recorder.due]
        if self._mps is not None:
            moments.append(self._mps.due)
        if self._termination is not None:
            moments.append(self._termination.deadline)
        else:
            moments.append(self._watchdog.due)
            moments += [] if self._timeout_at is None else [self._timeout_at]
        return min(moments)

    def _on_time(self) -> None:
        now = self._clock()
        if now >= self._recorder.due and self.failure is None:
            self._recorder.sample()
        if self._mps is not None and now >= self._mps.due:
            self._mps.look()
        if self._termination is not None:
            self._termination.advance(now)
        elif self._recorder.fault:
            self.lost_device = self._recorder.fault
            self._terminate(self.lost_device, now)
        elif self._mps is not None and self._mps.is_overdue:
            self._terminate(self._mps.fault, now)
        elif (exceeds := self._watchdog.check()) is not None:
            self._recorder.note_gpu_memory(exceeds.held)
            self._terminate(exceeds.reason, now, overuse.GRACE)
        elif self._timeout_at is not None and now >= self._timeout_at:
            self._terminate(f"timed out after {format_duration(self._job.timeout or 0)}", now)

    def _terminate(self, reason: str, now: float, grace: float = GRACE) -> None:
        group = not self._running.foreground
        self._termination = Termination(self._command, reason, now, group=group, grace=grace)

    def _on_signal(self, received: ReceivedSignal) -> None:
        """Pass a signal on, unless the command got it too: the terminal sends to the whole group."""
        number = received.number
        if number == signal.SIGCHLD or received.sender == self._command.pid:
            return
        shared = received.code > _FROM_KERNEL and self._running.foreground
        if number == signal.SIGHUP and os.getsid(0) == os.getpid():
            shared = False  # the end of a terminal is sent to the leader of its session alone
        if not shared:
            self._send(number)

    def _reap(self) -> CommandEnd | None:
        """Return how the command ended; None: it has not. If the terminal stopped it, stop as well."""
        pid, status, usage = os.wait4(self._command.pid, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            return None
        if not os.WIFSTOPPED(status):
            return CommandEnd(status, usage)
        if self._running.foreground and os.WSTOPSIG(status) in STOPS:
            self._stop()
        return None

    def _stop(self) -> None:
        """Stop until this process is continued, so that the shell sees the job stop; then continue both."""
        if signal.SIGCONT in signal.sigpending():
            return
        os.kill(os.getpid(), signal.SIGSTOP)
        signal.sigtimedwait((signal.SIGCONT,), 0)
        with suppress(ChildProcessError):  # it has ended by now
            if os.waitid(os.P_PID, self._command.pid, os.WCONTINUED | os.WNOHANG) is None:
                self._send(signal.SIGCONT)  # only this process was continued, not the group

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._command.pid, number)  # not reaped yet: no other process has this pid

    def _reason(self, end: CommandEnd) -> str:
        """Return why the job did not end by itself; empty: it did."""
        if self.failure is not None:
            return self.failure.reason
        if self._termination is not None:
            return self._termination.reason
        if self._mps is not None and end.exit_code:
            self._mps.look()
            if self._mps.fault:
                self._mps_ended = True
                return self._mps.fault
        if self._killed and end.exit_code:
            return self._killed
        return f"ended by {end.signal_name}" if end.signal_name else ""
