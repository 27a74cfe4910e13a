"""The environment of a command: with it, the command uses the accelerators of its job and no other. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Final

from fairlead.job import Limiter, LocalJob
from fairlead.limiter.hook import python_path
from fairlead.local.view import MachineView

if TYPE_CHECKING:
    from fairlead.inventory import Accelerator

JOB_ID: Final = "FAIRLEAD_JOB_ID"
CPUS: Final = "FAIRLEAD_CPUS"
PYTHON_PATH: Final = "PYTHONPATH"
"""It gets the hook that sets limits and threads of frameworks in front."""
THREADS: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "RAYON_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "JULIA_NUM_THREADS",
    "GOMAXPROCS",
)
"""What libraries read that start a thread for every core otherwise. VECLIB_MAXIMUM_THREADS is of macOS only;
ONNX Runtime reads none: the hook sets its threads."""
GROW: Final[Mapping[str, str]] = {
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}
"""For a shared accelerator without a limit: frameworks that take all free memory at their start then take
only what they need."""


def command_environment(view: MachineView, job: LocalJob, base: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a job's command: the user's own, and what its job adds.

    The variables that choose accelerators are set whatever the user has set; any other variable that the user
    has set stays.
    """
    environment = dict(base)
    if view.devices:
        environment = _with_devices(view, job, base)
    threads = _threads(job)
    if threads:
        environment = {**dict.fromkeys((*THREADS, CPUS), str(threads)), **environment}
    if job.requested.limiter is not Limiter.NONE:
        environment[PYTHON_PATH] = python_path(base.get(PYTHON_PATH, ""))
    return {**environment, JOB_ID: job.id}


def environment_notes(view: MachineView, job: LocalJob, base: Mapping[str, str]) -> tuple[str, ...]:
    """Return one line for each variable of the user that shows the command what its job does not hold."""
    if not view.devices:
        return ()
    from fairlead.local.machine.device_variables import unbooked  # noqa: PLC0415  # not for CPUs alone

    granted, every = _granted(view, job), [device.accelerator for device in view.devices]
    return tuple(
        f"{name} is set in your environment and stays: the command may use accelerators that are not booked"
        for name in unbooked(granted, every, base)
    )


def _with_devices(view: MachineView, job: LocalJob, base: Mapping[str, str]) -> dict[str, str]:
    from fairlead.local.machine.device_variables import device_variables  # noqa: PLC0415  # not for CPUs alone

    granted, every = _granted(view, job), [device.accelerator for device in view.devices]
    environment = device_variables(granted, every, base)
    if granted:
        environment |= _own(job, granted)
        environment = {**dict(_memory(job, granted, base)), **environment}
    return environment


def _granted(view: MachineView, job: LocalJob) -> "list[Accelerator]":
    by_id = {device.accelerator.id: device.accelerator for device in view.devices}
    return [by_id[share.device] for share in job.shares if share.device in by_id]


def _own(job: LocalJob, granted: "Sequence[Accelerator]") -> dict[str, str]:
    """Return our variables about the accelerators; those of several are joined by commas, in one order."""
    from fairlead.publish.access import own_variables  # noqa: PLC0415  # not for CPUs alone

    amounts = {share.device: None if share.whole else share.memory >> 20 for share in job.shares}
    rows = [own_variables(acc, amounts[acc.id]) for acc in granted]
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: ",".join(row[name] for row in rows if name in row) for name in names}


def _memory(
    job: LocalJob, granted: "Sequence[Accelerator]", base: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the variables by which frameworks stay inside a share; a whole accelerator needs none."""
    from fairlead.publish.memory_limit import MemoryLimit, limit_variables  # noqa: PLC0415  # not for CPUs alone

    limit = job.memory_limit
    if limit is not None:
        yield from limit_variables(MemoryLimit(limit, frozenset(base)), granted).items()
    elif any(not share.whole for share in job.shares) and all(acc.kind == "gpu" for acc in granted):
        yield from GROW.items()


def _threads(job: LocalJob) -> int:
    """Return the threads for the cores that the user states; 0 without any.

    Learned cores set none: a job that once ran on a busy machine would stay slow.
    """
    return max(1, ceil(job.requested.cpus)) if job.requested.cpus else 0
