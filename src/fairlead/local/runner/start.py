"""The start protocol: no command runs without a record that names its process, and none starts twice."""

import os
import signal
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from fairlead.errors import LedgerError
from fairlead.job import Limiter, LocalJob, LocalState
from fairlead.ledger.ledger import JobLedger
from fairlead.ledger.liveness import process_ref, seconds_since_boot
from fairlead.ledger.spec import JobSpec
from fairlead.local.machine.environment import command_environment
from fairlead.local.processes import all_pids
from fairlead.local.runner.command import (
    CommandFailure,
    CommandLaunch,
    HeldCommand,
    find_command,
    hold_command,
)
from fairlead.local.runner.signals import ENDS, PASSED_ON, CallerState
from fairlead.local.view import MachineView, StartDecision

if TYPE_CHECKING:
    from fairlead.local.mps.link import MpsLink

OWN_FAILURE: Final = 125
"""The exit code of a job that fairlead itself cannot run."""


@dataclass(frozen=True, slots=True)
class RunningCommand:
    """A job whose record says `running`, and the process of its command, which is held until `release`."""

    job: LocalJob
    process: HeldCommand
    foreground: bool
    """The command shares the process group and the terminal of its runner."""
    mps: "MpsLink | None" = None
    """The MPS daemon that must live before the command runs; None: it runs without MPS."""
    earlier: frozenset[int] = frozenset()
    """The pids from before the command's process was made: none of them belongs to the job."""

    def release(self, caller: CallerState) -> CommandFailure | None:
        """Execute the command; return why it cannot be executed, or None. Without MPS its process ends."""
        if self.mps is not None and (reason := self.mps.wait(lambda: bool(signal.sigpending() & ENDS))):
            self.process.abandon()
            return CommandFailure(OWN_FAILURE, reason)
        self.process.take_over(PASSED_ON - caller.ignored)
        self.process.release()
        return self.process.failure()


@dataclass(frozen=True, slots=True)
class NotStarted:
    """Why a job did not start."""

    reason: str
    """One line, for people."""
    exit_code: int | None = None
    """125: its limits cannot hold; 126 or 127: the command cannot be executed, now or later. None: the job
    waits, and may start later."""


def start_job(
    ledger: JobLedger,
    job: LocalJob,
    decision: StartDecision,
    view: MachineView,
    caller: CallerState,
    spec: JobSpec | None = None,
) -> RunningCommand | NotStarted:
    """Start the command of a queued job; call it under the lock, and after `CallerState.block`.

    The process of the command is forked and held, and the record written; `JobRunner.run_until_end` releases
    the process. If this process dies before, the command's process ends without exec and its start token is
    left: it never started.
    """
    spec = ledger.spec(job.id) if spec is None else spec
    assumed = replace(job.assumed, cpu=decision.cpu or job.assumed.cpu)
    job = replace(job, state=LocalState.RUNNING, shares=decision.shares, assumed=assumed, reason="")
    mps = _mps_link(ledger, view, job, spec)
    if isinstance(mps, str):
        return NotStarted(mps, OWN_FAILURE)
    earlier = all_pids()
    held = _hold(ledger, job, _launch(view, job, spec, mps), caller)
    if isinstance(held, NotStarted):
        return held
    running = replace(
        job,
        runner=process_ref(os.getpid()),
        command=process_ref(held.pid),
        started=time.time(),
        started_boot=seconds_since_boot(),
    )
    try:
        ledger.write(running)
    except (LedgerError, OSError) as error:
        held.abandon()
        return NotStarted(f"its start cannot be recorded: {error}")
    return RunningCommand(running, held, not spec.output, mps, earlier)


def _hold(
    ledger: JobLedger, job: LocalJob, launch: CommandLaunch, caller: CallerState
) -> HeldCommand | NotStarted:
    """Fork the process of a job's command, or return why it cannot be executed."""
    path = find_command(launch.argv, launch.environment, launch.cwd)
    if isinstance(path, CommandFailure):
        return NotStarted(path.reason, path.exit_code)
    try:
        return hold_command(
            launch, path, caller, ledger.release_inherited_lock, lambda: ledger.take_start_token(job.id)
        )
    except OSError as error:  # a limit of processes, descriptors or memory
        return NotStarted(f"no process can be started for it: {error.strerror}")


def _mps_link(ledger: JobLedger, view: MachineView, job: LocalJob, spec: JobSpec) -> "MpsLink | str | None":
    """Return the MPS daemon of a job, or why it cannot have one; None: it needs none."""
    if job.requested.limiter is not Limiter.MPS:
        return None
    from fairlead.limiter.mps import control_program  # noqa: PLC0415  # few jobs need it
    from fairlead.local.mps.device import mps_device, needs_mps  # noqa: PLC0415
    from fairlead.local.mps.link import MpsLink  # noqa: PLC0415

    if not needs_mps(job):
        return None
    held = {share.device for share in job.shares}
    granted = [device.accelerator for device in view.devices if device.accelerator.id in held]
    device = mps_device(job, granted, control_program(spec.environment))
    return device if isinstance(device, str) else MpsLink(ledger.place, device, os.environ)


def _launch(view: MachineView, job: LocalJob, spec: JobSpec, mps: "MpsLink | None") -> CommandLaunch:
    """Return what the command's process needs; a job of `run` keeps the folder and the umask that it has."""
    environment = command_environment(view, job, spec.environment)
    if mps is not None:
        environment |= mps.variables(job)
    if not spec.output:
        return CommandLaunch(spec.argv, environment)
    return CommandLaunch(spec.argv, environment, spec.cwd, spec.umask, spec.output)
