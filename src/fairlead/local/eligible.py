"""Which accelerators a job may have: those that it names, and that can be used. Pure, without the engine."""

from collections.abc import Iterable

from fairlead.job import LocalJob
from fairlead.local.mps.device import asks_for_mps, can_mps
from fairlead.local.view import DeviceView


def matching(job: LocalJob, devices: Iterable[DeviceView]) -> tuple[str, ...]:
    """Return the ids of the accelerators that a job names, and for which its model is predicted.

    Of those, a job that shares one under MPS can have the ones that MPS serves.
    """
    wish, predicted = job.requested.device, job.assumed.devices
    mps = asks_for_mps(job)
    return tuple(
        device.accelerator.id
        for device in devices
        if (not predicted or device.accelerator.id in predicted)
        and (not wish or _is(device, wish))
        and (not mps or can_mps(device.accelerator))
    )


def _is(device: DeviceView, wish: str) -> bool:
    accelerator = device.accelerator
    names = [accelerator.id, accelerator.model or "", accelerator.uuid or "", accelerator.vendor]
    if accelerator.mig is not None:
        from fairlead.publish.labels import model_name  # noqa: PLC0415  # few machines have an instance

        names += [model_name(accelerator), accelerator.mig.profile]
    return wish.casefold() in (name.casefold() for name in names)


def can_be_used(device: DeviceView) -> bool:
    """Return whether jobs may start on an accelerator, now or once its fault has passed."""
    return device.recoverable or not fault_of(device)


def fault_of(device: DeviceView) -> str:
    """Return why no job may start on an accelerator; empty: it is ready."""
    if device.fault:
        return device.fault
    accelerator = device.accelerator
    return "" if accelerator.state.allocatable else accelerator.reason or f"it is only {accelerator.state}"
