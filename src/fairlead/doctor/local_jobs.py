"""Checks whether jobs can run on this machine: its state directory, the lock of it, and the accelerators.

Nothing is made and nothing is changed: a state directory that is missing is made by the first job.
"""

import fcntl
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fairlead.doctor.finding import CheckResult, Finding, count, fail, ok, some, warn
from fairlead.errors import LedgerError
from fairlead.ledger.lock import lock_holder
from fairlead.ledger.place import STATE_VARIABLE, StateDirectory, state_path, user_folder
from fairlead.units import Bytes, format_bytes

PATIENCE: Final = 2.0
"""Seconds for which another process may hold the lock: a decision takes milliseconds."""
_LEAST_SPACE: Final = 1 << 20
"""Bytes on the disk: room for the records of some hundred jobs."""


@dataclass(frozen=True, slots=True)
class LocalJobsState:
    """The state directory as a job of this user would find it."""

    path: str
    problem: str = ""
    """Why no job can be recorded in it; empty: one can."""
    hint: str = ""
    holder: str = ""
    """The process that does not release the lock; empty: none."""
    free: Bytes | None = None
    """Room on its disk; None: not known."""


@dataclass(frozen=True, slots=True)
class JobResources:
    """What jobs can use on this machine."""

    cores: float
    memory: Bytes
    accelerators: tuple[str, ...] = ()
    """Their names, all of them."""
    faults: Mapping[str, str] = field(default_factory=dict)
    """By name, why an accelerator takes no jobs now."""
    memory_problem: str | None = None
    """Why the RAM that a job states cannot be enforced; empty: it can; None: not examined."""


def read_local_jobs(environ: Mapping[str, str], patience: float = PATIENCE) -> LocalJobsState:
    """Look at the state directory of this machine; the lock may be held for `patience` seconds."""
    path = state_path(environ)
    try:
        if not os.path.lexists(os.path.join(path, user_folder(os.geteuid()))):
            return _unmade(path)
        StateDirectory.at(path)
        return LocalJobsState(path, holder=_holder(path, patience), free=_free(path))
    except LedgerError as error:
        return LocalJobsState(path, str(error), error.hint)
    except OSError as error:
        return LocalJobsState(
            path, f"{path}: {error.strerror}", f"name another directory in {STATE_VARIABLE}"
        )


def examine_local_jobs(state: LocalJobsState, resources: JobResources) -> list[Finding]:
    """Return the findings about jobs on this machine."""
    results = [*_state(state), *_devices(resources)] or [_ready(state, resources), *_memory(resources)]
    return [Finding("jobs", result.verdict, result.text, result.todo) for result in results]


def _state(state: LocalJobsState) -> list[CheckResult]:
    if state.problem:
        return [fail(f"no job can be recorded: {state.problem}", state.hint)]
    if state.free is not None and state.free < _LEAST_SPACE:
        text = f"{state.path}: only {format_bytes(state.free)} are free: jobs wait until they can be recorded"
        return [fail(text, f"make room on that disk, or name another directory in {STATE_VARIABLE}")]
    if state.holder:
        return [
            warn(
                f"jobs wait for the lock of {state.path}, {state.holder}", "wait for that process, or end it"
            )
        ]
    return []


def _devices(resources: JobResources) -> list[CheckResult]:
    return [
        warn(f"{name} takes no jobs: {fault}", "submitted jobs that need it wait; fairlead ps shows why")
        for name, fault in resources.faults.items()
    ]


def _ready(state: LocalJobsState, resources: JobResources) -> CheckResult:
    devices = resources.accelerators
    beside = f", {count(devices, 'accelerator')} ({some(devices)})" if devices else ""
    amount = f"{resources.cores:g} cores, {format_bytes(resources.memory)} of RAM{beside}"
    return ok(f"jobs can run here: {amount}; their records are in {state.path}")


def _memory(resources: JobResources) -> list[CheckResult]:
    """Say whether --memory holds; where it does not, jobs run as well, so that nothing is wrong."""
    if resources.memory_problem is None:
        return []
    if resources.memory_problem:
        return [ok(f"the RAM that --memory states is booked, and not enforced: {resources.memory_problem}")]
    return [ok("the RAM that --memory states is enforced by a cgroup")]


def _unmade(path: str) -> LocalJobsState:
    """Say whether the user's folders can be made in a directory that may be missing itself."""
    parent = path
    while not os.path.lexists(parent) and parent != os.path.dirname(parent):
        parent = os.path.dirname(parent)
    if os.path.isdir(parent) and os.access(parent, os.W_OK | os.X_OK):
        return LocalJobsState(path, free=_free(parent))
    hint = f"name a directory that you can write to in {STATE_VARIABLE}"
    return LocalJobsState(path, f"{parent}: this user can make no folder in it", hint)


def _holder(path: str, patience: float) -> str:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        end = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= end:
                    return lock_holder(folder)
                time.sleep(0.05)
            else:
                return ""
    finally:
        os.close(folder)


def _free(path: str) -> Bytes:
    disk = os.statvfs(path)
    return Bytes(disk.f_bavail * disk.f_frsize)
