"""Restart a program of a running lab with its old command line, as an upgrade or a crash does."""

import signal
import time
from dataclasses import dataclass
from typing import Final

from fairlead.errors import LabError
from fairlead.lab.run import health, home, process, ready
from fairlead.lab.run.home import LabHome
from fairlead.lab.run.starting import StartingLab
from fairlead.lab.run.state import Lab, LabPhase, LabProgram
from fairlead.lab.run.steps import StepPrinter

PATIENCE: Final = 10.0
"""Seconds of a graceful shutdown; an API server with open watches would take more."""
LIMIT: Final = 180.0
"""Seconds within which it must be healthy again; many times what an idle machine takes."""
_POLL: Final = 0.05


@dataclass(frozen=True, slots=True)
class RestartedProgram:
    """A program that was restarted."""

    program: str
    ended: int
    """The PID of the old process."""
    started: int
    """The PID of the new process."""
    killed: bool
    """Whether it got no graceful shutdown, or did not finish it in time."""
    seconds: float
    """From the signal until it was healthy again."""


def restart(
    where: LabHome, name: str, program: str, steps: StepPrinter, *, kill: bool = False
) -> RestartedProgram:
    """Restart a program with the same command line, and return when it is healthy; `kill` skips SIGTERM."""
    with home.hold_lock(where.get(name).folder) as acquired:
        if not acquired:
            raise LabError(
                f"lab {name!r} is being started, changed or ended by another process", hint="try again"
            )
        lab = where.get(name)
        old = find_program(lab, program)
        began = time.monotonic()
        with steps.step("ended"):
            killed = _end(old, kill=kill)
        since = time.time()
        with steps.step("healthy again") as step:
            new = StartingLab(lab, lab.environ).restart(old)
            ready.wait_healthy(lambda: health.is_healthy(lab, new, since), new, step.tick, LIMIT)
        seconds = round(time.monotonic() - began, 2)
        return RestartedProgram(program, old.process.pid, new.process.pid, killed, seconds)


def find_program(lab: Lab, name: str) -> LabProgram:
    """Return a restartable program; raise with the names of all if there is none of this name."""
    if lab.phase is not LabPhase.READY or lab.is_orphaned():
        raise LabError(f"lab {lab.name!r} is not ready", hint="see: fairlead lab status")
    known = {program.name: program for program in lab.programs if program.argv}
    if name not in known:
        raise LabError(
            f"lab {lab.name!r} has no restartable program {name!r}", hint=f"it has: {', '.join(known)}"
        )
    return known[name]


def _end(program: LabProgram, *, kill: bool) -> bool:
    """End a program, gracefully unless `kill` is set; return whether it had to be killed."""
    if not kill and process.send_signal(program.process, signal.SIGTERM):
        until = time.monotonic() + PATIENCE
        while process.alive(program.process) and time.monotonic() < until:
            time.sleep(_POLL)
    killed = process.alive(program.process)
    if process.kill([program.process]):
        raise LabError(f"{program.name} survives SIGKILL: the kernel holds process {program.process.pid}")
    return killed
