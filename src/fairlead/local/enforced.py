"""What holds a job to its share of an accelerator, and where nothing does. Pure."""

from collections.abc import Iterator
from typing import Final

from fairlead.inventory import Accelerator
from fairlead.job import JobKind, Limiter, LocalJob
from fairlead.local.view import DeviceView, MachineView

LISTING_DRIVERS: Final = ("nvidia", "amdgpu", "i915", "xe")
"""The drivers that report the memory of each process, or let the kernel report it."""
_ALONE: Final = "none needed: a job has it alone"
_UNLISTED: Final = "the driver lists no processes"
_SHARED_RAM: Final = "its memory is the machine's RAM, which the driver does not list by process"


def limits_text(acc: Accelerator, *, mps: bool, listed: bool) -> str:
    """Return what can limit a job on an accelerator: `memory by watchdog and MPS; compute by MPS`.

    `mps` says whether the program of CUDA's Multi-Process Service is installed, `listed` whether the driver
    lists the memory of processes.
    """
    if not acc.shareable:
        return _ALONE
    by_mps = mps and acc.driver == "nvidia" and not acc.unified_memory
    if not listed:
        return f"none: {unlisted_reason(acc)}"
    return "memory by watchdog and MPS; compute by MPS" if by_mps else "memory by watchdog; compute by none"


def by_listing(acc: Accelerator) -> bool:
    """Say whether a driver of this name lists what each process holds of the accelerator's own memory."""
    return acc.driver in LISTING_DRIVERS and not acc.unified_memory


def unlisted_reason(acc: Accelerator) -> str:
    """Return why nothing can limit a job on an accelerator."""
    return _SHARED_RAM if acc.unified_memory else _UNLISTED


def unenforced(view: MachineView | None, job: LocalJob) -> Iterator[str]:
    """Yield why the stated size of a running job is not enforced, one line for each cause."""
    stated = job.requested.gpu_limit or job.requested.gpu_memory
    shares = [share for share in job.shares if not share.whole]
    if stated is None or not shares:
        return
    if job.kind is JobKind.ADOPTED:
        yield "its size is not enforced: it was not started through fairlead"
        return
    if job.requested.limiter is Limiter.NONE:
        yield "its size is not enforced: --limiter none"
        return
    by_id = {device.accelerator.id: device for device in view.devices} if view is not None else {}
    for device in (by_id[share.device] for share in shares if share.device in by_id):
        if not _lists_memory(device):
            acc = device.accelerator
            yield f"its size is not enforced on {acc.id}: {unlisted_reason(acc)}"


def _lists_memory(device: DeviceView) -> bool:
    """Say whether the driver lists processes of a device, each with its memory.

    The kernel's list of clients shows a user those of its own processes alone: none before a job starts.
    """
    if device.processes is None:
        return device.accelerator.driver != "nvidia" and by_listing(device.accelerator)
    return all(process.memory is not None for process in device.processes)
