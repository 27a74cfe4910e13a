"""A runner of its own for a submitted job: it outlives the supervisor that forked it."""

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Final

from fairlead.errors import FairleadError
from fairlead.job import Limiter, LocalJob, ProcessRef
from fairlead.ledger.ledger import JobLedger
from fairlead.ledger.liveness import process_ref
from fairlead.local.runner.job_runner import JobRunner
from fairlead.local.runner.signals import CallerState
from fairlead.local.runner.start import NotStarted, RunningCommand, start_job
from fairlead.local.supervisor.start import ensure_supervisor
from fairlead.local.view import MachineView, StartDecision

_CALLER: Final = CallerState()
"""A submitted command gets no ignored signals, no blocked ones, and no descriptors of the supervisor."""
_STARTED: Final = b"started"
_MOST: Final = 4096
_EVERY_RUNNER: Final = (
    "fairlead.history.commands",
    "fairlead.local.sample",
    "sqlite3",
    "urllib.parse",
)
_WITH_ACCELERATORS: Final = (
    "fairlead.local.machine.device_variables",
    "fairlead.local.machine.devices",
    "fairlead.local.machine.nvml_child",
    "fairlead.publish.access",
    "fairlead.publish.memory_limit",
)
_WITH_MPS: Final = ("fairlead.limiter.mps", "fairlead.local.mps.device", "fairlead.local.mps.link")


def import_for_runners(has_accelerators: bool) -> None:
    """Import what every runner needs in the end: once, before any of them is forked."""
    _import((*_EVERY_RUNNER, *(_WITH_ACCELERATORS if has_accelerators else ())))


def _import_for(job: LocalJob, decision: StartDecision) -> None:
    """Import what the runner of a job on an accelerator needs, once, if it has not been done before."""
    if decision.shares:
        _import(_WITH_ACCELERATORS)
        _import(_WITH_MPS if job.requested.limiter is Limiter.MPS else ())


def _import(modules: Sequence[str]) -> None:
    missing = [module for module in modules if module not in sys.modules]
    if missing:
        for module in missing:
            import_module(module)
        gc.collect()
        gc.freeze()  # a collection in a runner would touch, and so copy, every page of them


@dataclass(frozen=True, slots=True)
class _ForkedRunner:
    """A runner that is about to start its job, and the pipe in which it says whether it has."""

    pid: int
    answer: int

    def started(self) -> ProcessRef | NotStarted:
        """Wait until the job's record says `running`, or return why it does not."""
        text = os.read(self.answer, _MOST)  # one write of this size is one piece; nothing: it was killed
        os.close(self.answer)
        if text == _STARTED:
            return process_ref(self.pid) or ProcessRef(self.pid, 0, "")  # it may have ended by now
        os.waitpid(self.pid, 0)
        code, _, reason = text.decode("utf-8", "replace").partition(" ")
        return NotStarted(reason or "its runner was killed", int(code) if code.isdecimal() else None)


def start_detached(
    ledger: JobLedger,
    starts: Sequence[tuple[LocalJob, StartDecision]],
    view: MachineView,
    environ: Mapping[str, str],
) -> list[ProcessRef | NotStarted]:
    """Fork a runner for each job, which starts it and stays with it; call it under the lock.

    The runners start their jobs at the same time, each under its own copy of the lock. This returns, in the
    order of the jobs, each runner's process once the job's record says `running`. The caller reaps a runner
    when it ends (`os.waitpid(pid, os.WNOHANG)`), or leaves it to init by ending first.
    """
    for job, decision in starts:
        _import_for(job, decision)
    runners: list[_ForkedRunner | NotStarted] = []
    for job, decision in starts:
        others = [each.answer for each in runners if isinstance(each, _ForkedRunner)]
        runners.append(_fork_runner(ledger, job, decision, view, environ, others))
    return [each.started() if isinstance(each, _ForkedRunner) else each for each in runners]


def _fork_runner(
    ledger: JobLedger,
    job: LocalJob,
    decision: StartDecision,
    view: MachineView,
    environ: Mapping[str, str],
    others: Sequence[int],
) -> _ForkedRunner | NotStarted:
    """Fork the runner of a job; `others` are the answers of other runners, which it closes."""
    supervisor = os.getpid()
    try:
        answer, report = os.pipe()
    except OSError as error:
        return _no_process(error)
    try:
        pid = os.fork()
    except OSError as error:
        os.close(answer)
        os.close(report)
        return _no_process(error)
    if pid == 0:
        try:
            for each in (answer, *others):
                os.close(each)
            _run_detached(ledger, job, decision, view, environ, report, supervisor)
        except Exception as error:  # noqa: BLE001  # it has no caller: the log is the only place
            _log(f"the runner of job {job.id} failed: {type(error).__name__}: {error}")
        finally:
            os._exit(0)
    os.close(report)
    return _ForkedRunner(pid, answer)


def _no_process(error: OSError) -> NotStarted:
    return NotStarted(f"no process can be started for it: {error.strerror}")


def _run_detached(
    ledger: JobLedger,
    job: LocalJob,
    decision: StartDecision,
    view: MachineView,
    environ: Mapping[str, str],
    answer: int,
    supervisor: int,
) -> None:
    os.setsid()
    _CALLER.block()
    try:
        running = start_job(ledger, job, decision, view, _CALLER)
    except (FairleadError, OSError) as error:
        running = NotStarted(f"it cannot be started: {error}")
    if not isinstance(running, RunningCommand):
        code = "-" if running.exit_code is None else str(running.exit_code)
        os.write(answer, f"{code} {running.reason}".encode()[:_MOST])
        return
    with suppress(BrokenPipeError):  # the supervisor was killed: the job runs all the same
        os.write(answer, _STARTED)
    os.close(answer)
    ledger.release_inherited_lock()
    JobRunner(ledger, running, _CALLER, environ, _log).run_until_end()
    if os.getppid() != supervisor:  # it was killed
        with suppress(FairleadError, OSError):
            ensure_supervisor(ledger, environ)


def _log(line: str) -> None:
    """Write a line to the standard error, which is the supervisor's log."""
    with suppress(OSError):
        os.write(2, f"{line}\n".encode("utf-8", "replace"))
