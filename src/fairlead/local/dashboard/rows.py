"""The status of one machine as rows of the dashboard's tables. Pure."""

import shlex
from collections.abc import Iterable
from typing import Final

from fairlead.dashboard.row_types import (
    DeviceRow,
    NodeRow,
    ProposalRow,
    RequestedAmounts,
    ShareOfDevice,
    WorkloadRow,
    WorkloadState,
)
from fairlead.inventory import Inventory
from fairlead.job import LocalJob, LocalState
from fairlead.local.status import ForeignProcess, LocalStatus
from fairlead.local.view import DeviceView, MachineView
from fairlead.rightsize.local import LocalRecommendation
from fairlead.units import format_bytes

CPU: Final = "cpu"
"""The key of the machine's cores and RAM among its accelerators, where no processor is in the catalog."""
_STATES: Final[dict[LocalState, WorkloadState]] = {
    LocalState.QUEUED: "waiting",
    LocalState.RUNNING: "running",
    LocalState.DONE: "ended",
    LocalState.FAILED: "failed",
    LocalState.CANCELLED: "ended",
}


def machine_row(name: str, view: MachineView) -> NodeRow:
    """Return the row of the machine."""
    return NodeRow(
        key=name,
        name=name,
        state="ready",
        reason="; ".join(view.problems),
        cpu_milli=view.cpu,
        cpu_used_milli=view.cpu_used,
        memory_bytes=view.memory,
        memory_used_bytes=max(0, view.memory - view.memory_available),
        devices=len(view.devices),
        arch=view.machine.arch or "",
        agent="ok",
    )


def accelerator_rows(name: str, status: LocalStatus, inventory: Inventory, now: float) -> list[DeviceRow]:
    """Return the rows of the accelerators, and one of the processor for jobs without an accelerator."""
    view = status.view
    if view is None:
        return []
    rows = [_accelerator(name, device, status, now) for device in view.devices]
    return [*rows, _processor(name, view, inventory, status, now)]


def _accelerator(name: str, device: DeviceView, status: LocalStatus, now: float) -> DeviceRow:
    accelerator = device.accelerator
    shares = tuple(_shares(accelerator.id, accelerator.memory or 0, status))
    known = [share.predicted_bytes for share in shares if share.predicted_bytes is not None]
    measured = (device.memory_used, device.busy, device.power, device.temperature)
    return DeviceRow(
        key=f"{name}/{accelerator.id}",
        node=name,
        device=accelerator.id,
        model=accelerator.model or "",
        name=accelerator.name,
        kind=accelerator.kind,
        state="unhealthy" if device.fault else accelerator.state.value,
        reason=device.fault or accelerator.reason,
        memory_bytes=accelerator.memory,
        memory_used_bytes=device.memory_used,
        utilisation=device.busy,
        power_watts=device.power,
        temperature_celsius=device.temperature,
        measured=now if any(value is not None for value in measured) else None,
        requested_bytes=sum(share.requested_bytes for share in shares),
        predicted_bytes=sum(known) if known else None,
        shares=(*shares, *_foreign(accelerator.id, status.foreign)),
    )


def _shares(accelerator: str, memory: int, status: LocalStatus) -> Iterable[ShareOfDevice]:
    for job in status.running:
        for share in job.shares:
            if share.device == accelerator:
                need = job.assumed.need
                yield ShareOfDevice(
                    holder=job.id,
                    name=job.name,
                    requested_bytes=memory if share.whole else job.requested.gpu_memory or share.memory,
                    predicted_bytes=need.peak if need is not None else None,
                    measured_bytes=job.measured.gpu_memory.get(accelerator) if job.measured else None,
                    whole=share.whole,
                )


def _foreign(accelerator: str, processes: Iterable[ForeignProcess]) -> Iterable[ShareOfDevice]:
    for process in processes:
        if accelerator in process.memory:
            held = process.memory[accelerator]
            name = f"{process.name} ({process.pid})"
            yield ShareOfDevice(name=name, requested_bytes=0, measured_bytes=held)


def _processor(
    name: str, view: MachineView, inventory: Inventory, status: LocalStatus, now: float
) -> DeviceRow:
    """Return the row of the cores and the RAM, with the jobs that hold no accelerator."""
    cpu = next((each for each in inventory.accelerators if each.kind == CPU), None)
    jobs = [job for job in status.running if not job.shares]
    shares = tuple(_ram_share(job) for job in jobs)
    device = cpu.id if cpu else CPU
    busy = None if view.cpu_used is None or not view.cpu else min(1.0, view.cpu_used / view.cpu)
    return DeviceRow(
        key=f"{name}/{device}",
        node=name,
        device=device,
        model=(cpu.model if cpu else "") or "",
        name=cpu.name if cpu else "processor",
        kind=CPU,
        state=cpu.state.value if cpu else "healthy",
        memory_bytes=view.memory,
        memory_used_bytes=max(0, view.memory - view.memory_available),
        utilisation=busy,
        measured=now,
        requested_bytes=sum(share.requested_bytes for share in shares),
        shares=shares,
    )


def _ram_share(job: LocalJob) -> ShareOfDevice:
    return ShareOfDevice(
        holder=job.id,
        name=job.name,
        requested_bytes=job.requested.memory or job.assumed.memory,
        predicted_bytes=job.assumed.memory or None,
        measured_bytes=job.measured.memory if job.measured else None,
    )


def job_row(machine: str, job: LocalJob, status: LocalStatus) -> WorkloadRow:
    """Return the row of a job."""
    state: WorkloadState = "starting" if job.id in status.starts else _STATES[job.state]
    since = {"waiting": job.submitted, "starting": job.submitted, "running": job.started}.get(
        state, job.ended
    )
    wait = status.waits.get(job.id)
    return WorkloadRow(
        key=job.id,
        kind="job",
        namespace=job.user,
        name=job.name,
        state=state,
        since=since,
        node=machine if job.started is not None else None,
        devices=tuple(f"{machine}/{share.device}" for share in job.shares),
        model=job.requested.model or None,
        requested=RequestedAmounts(
            cpu_milli=round((job.requested.cpus or 0) * 1000) or job.assumed.cpu,
            memory_bytes=job.requested.memory or job.assumed.memory,
            accelerator_bytes=job.requested.gpu_memory,
            whole=job.assumed.whole,
            count=job.assumed.gpus,
        ),
        priority=job.priority,
        why=job_reason(job, status),
        place=wait.position if wait is not None else None,
    )


def proposal_row(advised: LocalRecommendation) -> ProposalRow:
    """Return the row of a proposal for the next runs of a command."""
    size, now = advised.advice.size or 0, advised.requested or 0
    before = f" instead of {format_bytes(now)}" if now else ""
    return ProposalRow(
        key=f"{advised.kind}/{advised.name}/{advised.resource}",
        workload=advised.name,
        what=f"{format_bytes(size)} of {advised.resource}{before}: {advised.advice.reason}",
        now_bytes=now,
        proposed_bytes=size,
        saves_bytes=advised.saving,
        risk=advised.advice.risk,
        command=f"fairlead rightsize --local {shlex.quote(advised.name)}",
    )


def job_reason(job: LocalJob, status: LocalStatus) -> str:
    """Return why a job waits or ended, in one line; empty while it runs."""
    if job.state is LocalState.RUNNING:
        return ""
    reason = status.reason(job)
    if job.state is LocalState.FAILED and job.exit_code is not None:
        return f"exit code {job.exit_code}{f': {reason}' if reason else ''}"
    return reason
