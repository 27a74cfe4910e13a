"""Which jobs run under MPS, and on which devices they can. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fairlead.job import Limiter, LocalJob

if TYPE_CHECKING:
    from fairlead.inventory import Accelerator

INSTEAD: Final = "write --limiter watchdog"
"""What to do where MPS cannot be used."""
MISSING: Final = f"nvidia-cuda-mps-control is not installed; install the driver's MPS program, or {INSTEAD}"


@dataclass(frozen=True, slots=True)
class MpsDevice:
    """A GPU or MIG instance whose programs run under MPS, and the program that is their daemon."""

    id: str
    uuid: str
    program: str


def needs_mps(job: LocalJob) -> bool:
    """Return whether a started job runs under MPS: it shares a device, or has a part of its compute."""
    requested = job.requested
    if requested.limiter is not Limiter.MPS or not job.shares:
        return False
    return requested.gpu_compute is not None or any(not share.whole for share in job.shares)


def asks_for_mps(job: LocalJob) -> bool:
    """Return whether a queued job will run under MPS: not one that gets whole devices with all compute."""
    requested = job.requested
    if requested.limiter is not Limiter.MPS or not job.assumed.gpus:
        return False
    return requested.gpu_compute is not None or not job.assumed.whole


def can_mps(accelerator: "Accelerator") -> bool:
    """Return whether MPS can serve an accelerator: a GPU of NVIDIA's own driver, which a Jetson has not."""
    return (
        accelerator.vendor == "NVIDIA"
        and accelerator.kind == "gpu"
        and accelerator.driver == "nvidia"
        and bool(accelerator.uuid)
        and not accelerator.unified_memory
    )


def mps_device(job: LocalJob, granted: "Sequence[Accelerator]", program: str | None) -> MpsDevice | str:
    """Return the device of a job under MPS, or why MPS cannot serve it and what to do, in one line."""
    if len(granted) > 1:
        return f"MPS cannot limit a job on several devices: each has a daemon of its own; {INSTEAD}"
    unfit = [accelerator.id for accelerator in granted if not can_mps(accelerator)]
    if unfit or not granted:
        name = unfit[0] if unfit else job.device
        return f"MPS cannot serve {name}: it needs a GPU with NVIDIA's own driver; {INSTEAD}"
    if program is None:
        return f"MPS cannot be used: {MISSING}"
    return MpsDevice(granted[0].id, granted[0].uuid or "", program)
