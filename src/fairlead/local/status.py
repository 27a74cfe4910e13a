"""LocalStatus: the jobs of this machine, its devices, the plan of its queue, and GPU processes of others."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from fairlead.inventory import Accelerator
from fairlead.job import JobKind, LocalJob, LocalState
from fairlead.limiter.mps import PROCESS_NAME
from fairlead.local.processes import descendants
from fairlead.local.view import MachineView, StartDecision, WaitDecision
from fairlead.units import Bytes, Seconds

STARTS_NOW: Final = "it starts now"
"""The reason of a queued job that fits: its process has yet to start it."""


@dataclass(frozen=True, slots=True)
class ForeignProcess:
    """A process on an accelerator that was not started through fairlead, and was not adopted."""

    pid: int
    name: str
    uid: int | None
    user: str
    """Empty: the process has ended or is hidden."""
    memory: Mapping[str, Bytes | None]
    """By accelerator id; None: the driver does not report it."""

    @property
    def total(self) -> Bytes | None:
        """The memory that it holds of all accelerators; None: the driver reports none of it."""
        known = [amount for amount in self.memory.values() if amount is not None]
        return Bytes(sum(known)) if known else None


@dataclass(frozen=True, slots=True)
class LocalStatus:
    """What `ps` and `top` show."""

    jobs: tuple[LocalJob, ...]
    """In order of arrival, as they are recorded."""
    at: float
    """Seconds since the boot."""
    view: MachineView | None = None
    """None: the machine was not read."""
    waits: Mapping[str, WaitDecision] = field(default_factory=dict)
    """By job id; empty where no plan was made."""
    starts: Mapping[str, StartDecision] = field(default_factory=dict)
    """By job id: queued jobs whose process has yet to start them."""
    foreign: tuple[ForeignProcess, ...] = ()
    warnings: tuple[str, ...] = ()
    """What could not be read, one line each."""

    @property
    def running(self) -> tuple[LocalJob, ...]:
        """The running jobs, in order of arrival."""
        return tuple(job for job in self.jobs if job.state is LocalState.RUNNING)

    @property
    def queued(self) -> tuple[LocalJob, ...]:
        """The queued jobs, first the one that starts first."""
        queued = [job for job in self.jobs if job.state is LocalState.QUEUED]
        return tuple(sorted(queued, key=lambda job: (self.position(job), job.number)))

    def position(self, job: LocalJob) -> int:
        """Return the place of a queued job in the queue: 0 starts now, 1 is the first that waits."""
        wait = self.waits.get(job.id)
        return wait.position if wait is not None else 0

    def reason(self, job: LocalJob) -> str:
        """Return why a job waits, by the plan, or where there is none, as recorded; or why it ended."""
        if job.state is not LocalState.QUEUED:
            return job.reason
        if (wait := self.waits.get(job.id)) is not None:
            return wait.reason
        return STARTS_NOW if job.id in self.starts else job.reason

    def seconds(self, job: LocalJob) -> Seconds | None:
        """Return how long a job waits or runs, or how long it ran; None: it never started."""
        if job.state is LocalState.QUEUED:
            return Seconds(max(0.0, self.at - job.submitted_boot))
        if job.state is LocalState.RUNNING:
            began = job.started_boot if job.started_boot is not None else job.submitted_boot
            return Seconds(max(0.0, self.at - began))
        if job.started is None or job.ended is None:
            return None
        return Seconds(max(0.0, job.ended - job.started))


def device_labels(view: MachineView | None) -> dict[str, str]:
    """Return short names of accelerators: the model or MIG profile, numbered where there are several."""
    if view is None:
        return {}
    models = [_label(device.accelerator) for device in view.devices]
    labels: dict[str, str] = {}
    for index, (device, model) in enumerate(zip(view.devices, models, strict=True)):
        number = models[:index].count(model)
        labels[device.accelerator.id] = f"{model}:{number}" if models.count(model) > 1 else model
    return labels


def _label(accelerator: Accelerator) -> str:
    return accelerator.mig.profile if accelerator.mig else accelerator.model or accelerator.kind


def job_processes(jobs: Iterable[LocalJob], children: Mapping[int, tuple[int, ...]]) -> dict[int, str]:
    """Return the processes of running jobs with the id of their job; `children` comes from `children_of`."""
    owners: dict[int, str] = {}
    for job in jobs:
        for process in (job.runner, job.command):
            if job.state is LocalState.RUNNING and process is not None:
                owners |= dict.fromkeys(descendants(process.pid, children), job.id)
    return owners


def foreign_processes(
    view: MachineView,
    jobs: Sequence[LocalJob],
    children: Mapping[int, tuple[int, ...]],
    describe: Callable[[int], tuple[str, int | None, str]],
    groups: Callable[[int], Iterable[int]],
) -> tuple[ForeignProcess, ...]:
    """Return the processes on accelerators that belong to no job; servers of MPS are a part of the driver.

    `describe` gives the name, uid and user of a process, `groups` its process group and session: a child
    whose parent has ended stays in those of the job's command.
    """
    held: dict[int, dict[str, Bytes | None]] = {}
    for device in view.devices:
        for process in device.processes or ():
            held.setdefault(process.pid, {})[device.accelerator.id] = process.memory
    ours = job_processes(jobs, children) if held else {}
    found = (
        ForeignProcess(pid, *describe(pid), memory)
        for pid, memory in sorted(held.items())
        if pid not in ours and ours.keys().isdisjoint(groups(pid))
    )
    return tuple(process for process in found if not is_mps(process.name))


def is_mps(name: str) -> bool:
    """Return whether a process of this name is a daemon or server of MPS: the clients hold what is in use."""
    return name == PROCESS_NAME


def with_adopted_use(jobs: Iterable[LocalJob], view: MachineView) -> tuple[LocalJob, ...]:
    """Return the jobs; an adopted one has no runner that measures it, so the driver's figures count."""
    return tuple(_with_driver_figures(job, view) if _is_adopted(job) else job for job in jobs)


def _is_adopted(job: LocalJob) -> bool:
    return job.kind is JobKind.ADOPTED and job.state is LocalState.RUNNING


def _with_driver_figures(job: LocalJob, view: MachineView) -> LocalJob:
    if job.command is None or job.measured is None:
        return job
    held = {
        device.accelerator.id: process.memory
        for device in view.devices
        for process in device.processes or ()
        if process.pid == job.command.pid and process.memory is not None
    }
    return replace(job, measured=replace(job.measured, gpu_memory={**job.measured.gpu_memory, **held}))
