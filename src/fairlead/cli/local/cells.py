"""The texts of a job, as `ps` and `top` print them: short, and safe to print whatever a record holds."""

from typing import TYPE_CHECKING, Final

from fairlead.cli.live.paint import printable
from fairlead.job import LocalJob, LocalState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairlead.local.status import ForeignProcess, LocalStatus

NONE: Final = "-"
_UNITS: Final = ("", "Ki", "Mi", "Gi", "Ti")
_STEP: Final = 1024
_SMALL: Final = 10
_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400


def short_bytes(amount: int) -> str:
    """Format an amount of memory as the options take it: `512Mi`, `1.2Gi`, `64Gi`."""
    number, unit = _scaled(amount)
    return f"{number}{unit}"


def used_of(used: int | None, booked: int | None) -> str:
    """Format what a job uses of what is booked for it: `1.2/4Gi`, `512Mi`, `-/4Gi`."""
    if used is None or booked is None:
        known = booked if used is None else used
        return NONE if known is None else f"-/{short_bytes(known)}" if used is None else short_bytes(known)
    (number, unit), (most, largest) = _scaled(used), _scaled(booked)
    return f"{number}/{most}{unit}" if unit == largest else f"{number}{unit}/{most}{largest}"


def _scaled(amount: int) -> tuple[str, str]:
    size, index = float(amount), 0
    while size >= _STEP - 0.5 and index < len(_UNITS) - 1:
        size, index = size / _STEP, index + 1
    number = f"{size:.1f}" if size < _SMALL and index else f"{size:.0f}"
    return number.removesuffix(".0"), _UNITS[index]


def short_duration(seconds: float | None) -> str:
    """Format a duration: `12s`, `3m20s`, `2h05m`, `3d04h`."""
    if seconds is None:
        return NONE
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m{whole % _MINUTE:02}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02}m"
    return f"{whole // _DAY}d{whole % _DAY // _HOUR:02}h"


def cores(thousandths: int) -> str:
    """Format cores: `2`, `0.5`, `12`."""
    return f"{thousandths / 1000:.1f}".removesuffix(".0")


def device_of(job: LocalJob, labels: "Mapping[str, str]") -> str:
    """Return the accelerators of a job by their short names."""
    if not job.shares:
        return job.device or NONE
    return ",".join(printable(labels.get(share.device, share.device)) for share in job.shares)


def gpu_memory_of(job: LocalJob) -> str:
    """Return the accelerator memory that a job holds and has booked; of a queued job, what it asks for."""
    if job.state is LocalState.RUNNING and job.shares:
        whole = all(share.whole for share in job.shares)
        booked = None if whole else sum(share.memory for share in job.shares)
        used = gpu_memory_used(job)
        return f"{NONE if used is None else short_bytes(used)}/whole" if whole else used_of(used, booked)
    wanted = job.requested.gpu_memory
    if wanted is None and job.assumed.need is not None:
        wanted = job.assumed.need.peak
    count = job.assumed.gpus if not job.state.ended else job.requested.gpus or 0
    if wanted is None:
        return f"{count} whole" if count else NONE
    return f"{count}x{short_bytes(wanted)}" if count > 1 else short_bytes(wanted)


def gpu_memory_used(job: LocalJob) -> int | None:
    """Return the memory of accelerators that a running job holds; None: not measured."""
    if job.measured is None or not job.measured.gpu_memory:
        return None
    return sum(job.measured.gpu_memory.values())


def cpu_of(job: LocalJob) -> str:
    """Return the cores that a job uses and those booked for it; of a queued job, what it asks for."""
    booked = f"{job.assumed.cpu / 1000:g}" if job.assumed.firm_cpu else ""
    if job.state is LocalState.RUNNING:
        used = NONE if job.measured is None else cores(job.measured.cpu)
        return f"{used}/{booked}" if booked else used
    return f"{job.requested.cpus:g}" if job.requested.cpus is not None else NONE


def memory_of(job: LocalJob) -> str:
    """Return the RAM that a job holds and has booked; of a queued job, what it asks for."""
    if job.state is LocalState.RUNNING:
        booked = job.assumed.memory if job.assumed.firm_memory else None
        return used_of(None if job.measured is None else job.measured.memory, booked)
    return NONE if job.requested.memory is None else short_bytes(job.requested.memory)


def why(job: LocalJob, status: "LocalStatus") -> str:
    """Return why a job waits, with its place in the queue and the expected wait, or why it ended."""
    parts = [printable(status.reason(job))]
    if job.state is LocalState.QUEUED and (wait := status.waits.get(job.id)) is not None:
        parts[0] = f"#{wait.position}: {parts[0]}"
        if wait.starts_in is not None and not wait.impossible:
            parts.append(f"starts in about {short_duration(wait.starts_in)}")
    elif job.state is LocalState.FAILED and job.exit_code is not None:
        parts.insert(0, f"exit code {job.exit_code}")
    elif job.state is LocalState.RUNNING:
        from fairlead.local.enforced import unenforced

        parts += unenforced(status.view, job)
    return "; ".join(part for part in parts if part)


def foreign_text(process: "ForeignProcess", labels: "Mapping[str, str]") -> str:
    """Return what a process that was not started through fairlead holds, and how it becomes a job."""
    devices = ", ".join(printable(labels.get(device, device)) for device in process.memory)
    held = f"{short_bytes(process.total)} of " if process.total is not None else ""
    user = f", user {printable(process.user)}" if process.user else ""
    return (
        f"process {process.pid} ({process.name or 'unknown'}{user}) uses {held}{devices}: "
        f"not started through fairlead; fairlead adopt {process.pid}"
    )
