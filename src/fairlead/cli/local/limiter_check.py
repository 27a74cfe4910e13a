"""Limiters that this machine does not have: refused at once, with what to write instead."""

from collections.abc import Mapping

from fairlead.errors import SettingsError
from fairlead.job import Limiter, LocalJob
from fairlead.local.view import MachineView


def check_limiter(job: LocalJob, view: MachineView, environ: Mapping[str, str]) -> None:
    """Raise a SettingsError for a job that asks for MPS where it cannot have it."""
    if job.requested.limiter is not Limiter.MPS:
        return
    from fairlead.limiter.mps import control_program
    from fairlead.local.mps.device import INSTEAD, MISSING, asks_for_mps, can_mps

    if not asks_for_mps(job):
        return
    if job.assumed.gpus > 1:
        raise SettingsError(f"--limiter mps: it limits a job on one GPU only; {INSTEAD}, or --gpus 1")
    if not any(can_mps(device.accelerator) for device in view.devices):
        raise SettingsError(f"--limiter mps: no GPU with NVIDIA's own driver is here; {INSTEAD}")
    if control_program(environ) is None:
        raise SettingsError(f"--limiter mps: {MISSING}")
