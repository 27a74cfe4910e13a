"""Sizes that this machine can never give: refused at once, with the most that there is."""

from fairlead.errors import SettingsError
from fairlead.job import LocalJob
from fairlead.local.view import DeviceView, MachineView
from fairlead.units import format_bytes, format_number, pluralize


def check_machine(job: LocalJob, view: MachineView) -> None:
    """Raise a SettingsError for a job that requests more than this machine has."""
    requested = job.requested
    if requested.cpus is not None and round(1000 * requested.cpus) > view.cpu:
        have = format_number(view.cpu / 1000)
        raise SettingsError(f"--cpus {requested.cpus:g}: this machine has {have}; write at most that")
    if requested.memory is not None and requested.memory > view.memory:
        have = format_bytes(view.memory)
        raise SettingsError(
            f"--memory {format_bytes(requested.memory)}: this machine has {have}; ask for less"
        )
    if job.assumed.gpus or requested.device:
        _check_accelerators(job, view)


def _check_accelerators(job: LocalJob, view: MachineView) -> None:
    from fairlead.local.eligible import can_be_used, matching

    requested, count = job.requested, job.assumed.gpus
    option = _option(job)
    if not view.devices:
        why = f" ({'; '.join(view.problems)})" if view.problems else ""
        raise SettingsError(
            f"{option}: this machine has no accelerator{why}; leave it out to use cores and RAM"
        )
    ids = matching(job, view.devices)
    if not ids and requested.device:
        known = ", ".join(device.accelerator.id for device in view.devices)
        raise SettingsError(f"--device {requested.device}: no such accelerator here; write one of: {known}")
    devices = [device for device in view.devices if device.accelerator.id in ids]
    devices = [device for device in devices if can_be_used(device)] or devices  # the plan says why none can
    if count > len(devices):
        there = pluralize(len(devices), "accelerator")
        raise SettingsError(f"{option}: this machine has {there} of that kind; write at most {len(devices)}")
    size = max(requested.gpu_memory or 0, requested.gpu_limit or 0)
    largest = max(devices, key=_memory)
    if size and _memory(largest) and size > _memory(largest):
        raise SettingsError(
            f"--gpu-mem {format_bytes(size)}: larger than any accelerator here; the largest, "
            f"{largest.accelerator.id}, has {format_bytes(_memory(largest))}"
        )


def _option(job: LocalJob) -> str:
    requested = job.requested
    if requested.gpus:
        return f"--gpus {requested.gpus}"
    if requested.gpu_memory is not None:
        return f"--gpu-mem {format_bytes(requested.gpu_memory)}"
    return f"--device {requested.device}" if requested.device else f"--model {requested.model}"


def _memory(device: DeviceView) -> int:
    return device.accelerator.memory or 0
