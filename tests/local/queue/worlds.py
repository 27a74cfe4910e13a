"""Small machines and jobs for the tests of the queue."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from fairlead.inventory import Accelerator, Machine, State
from fairlead.job import Assumed, JobKind, JobUse, LocalJob, LocalState, Requested
from fairlead.local.view import DeviceView, MachineView
from fairlead.need import Need
from fairlead.share import DeviceShare
from fairlead.units import Bytes, Seconds

GIB: Final = 1 << 30
NOW: Final = 1000.0
"""Seconds since the boot in every world."""


def gib(number: float) -> Bytes:
    """Return an amount of memory."""
    return Bytes(int(number * GIB))


def gpu(
    name: str = "gpu-0", memory: float = 16, used: float | None = 0.0, fault: str = "", **more: Any
) -> DeviceView:
    """Return a GPU as the view shows it; its fault can pass, unless `recoverable` is False."""
    fields: dict[str, Any] = {"model": "t4", "vendor": "nvidia", "shareable": True, "unified_memory": False}
    fields |= more
    accelerator = Accelerator(
        name, fields["model"], "NVIDIA T4", fields["vendor"], "gpu", State.HEALTHY, "", 1.0, ("t4",),
        f"pci:{name}", memory=gib(memory), shareable=fields["shareable"],
        unified_memory=fields["unified_memory"],
    )  # fmt: skip
    recoverable = bool(fault) and more.get("recoverable", True)
    return DeviceView(accelerator, None if used is None else gib(used), fault=fault, recoverable=recoverable)


def machine(
    *devices: DeviceView,
    cores: float = 4,
    memory: float = 32,
    available: float | None = None,
    cpu_used: int | None = None,
    problems: tuple[str, ...] = (),
) -> MachineView:
    """Return a machine with these accelerators."""
    free = gib(memory if available is None else available)
    cpu = int(1000 * cores)
    return MachineView(NOW, Machine(cpus=int(cores)), devices, cpu, cpu_used, gib(memory), free, problems)


def job(
    number: int,
    *,
    user: int = 1000,
    priority: int = 0,
    after: tuple[str, ...] = (),
    waited: float = 0.0,
    requested: Requested | None = None,
    timeout: float | None = None,
    **assumed: Any,
) -> LocalJob:
    """Return a queued job; without fields of `assumed` it counts for one core."""
    return LocalJob(
        str(number), number, f"job-{number}.py", user, f"user{user}", JobKind.SUBMIT, LocalState.QUEUED,
        0.0, NOW - waited, "boot", requested or Requested(), Assumed(**assumed), priority, after,
        None if timeout is None else Seconds(timeout),
    )  # fmt: skip


def gpu_job(number: int, size: float, **more: Any) -> LocalJob:
    """Return a queued job that states the memory of one GPU."""
    stated = Requested(gpu_memory=gib(size))
    return job(number, **{"requested": stated, "gpus": 1, "need": Need.fixed(gib(size)), **more})


def soft_job(number: int, size: float, **more: Any) -> LocalJob:
    """Return a queued job with a learned size that it may exceed."""
    return job(number, gpus=1, need=Need.fixed(gib(size), firm=False), **more)


def whole_job(number: int, gpus: int = 1, **more: Any) -> LocalJob:
    """Return a queued job for whole GPUs."""
    return job(number, gpus=gpus, whole=True, **more)


def running(
    job: LocalJob,
    *devices: str,
    started: float = 100.0,
    use: JobUse | None = None,
    shares: tuple[DeviceShare, ...] | None = None,
) -> LocalJob:
    """Return a job that started that many seconds ago and holds its need of these devices."""
    need = job.assumed.need
    size = need.peak if need is not None else Bytes(0)
    whole = job.assumed.whole
    held = tuple(DeviceShare(name, Bytes(0) if whole else size, whole=whole) for name in devices)
    return replace(
        job,
        state=LocalState.RUNNING,
        shares=held if shares is None else shares,
        started=0.0,
        started_boot=NOW - started,
        measured=use,
    )


def uses(
    cpu: int = 0,
    memory: float = 0.0,
    gpus: Mapping[str, float] | None = None,
    *,
    peak: float | None = None,
    gpu_peak: float = 0.0,
    settled: bool = False,
) -> JobUse:
    """Return what was measured of a job just now."""
    held = {name: gib(size) for name, size in (gpus or {}).items()}
    most = gib(memory if peak is None else peak)
    return JobUse(NOW, cpu, gib(memory), held, {}, most, gib(gpu_peak), settled)


def ended(job: LocalJob, state: LocalState = LocalState.DONE) -> LocalJob:
    """Return a job that has ended."""
    return replace(job, state=state)
