"""Which jobs run under MPS, on which devices, and why others cannot."""

from dataclasses import replace

import pytest

from fairlead.cli.local.limiter_check import check_limiter
from fairlead.errors import SettingsError
from fairlead.inventory import Accelerator
from fairlead.job import Assumed, Limiter, LocalJob, Requested
from fairlead.limiter.mps import control_program
from fairlead.local.mps.device import MpsDevice, asks_for_mps, can_mps, mps_device, needs_mps
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests.accelerators import accelerator
from tests.limiter.control import write_control
from tests.local.mps.world import GPU
from tests.local.runner.jobs import queued, view

GIB = Bytes(1 << 30)
JETSON = accelerator(
    "platform:17000000.gpu", vendor="NVIDIA", kind="gpu", driver="nvgpu", unified=True, mebibytes=30000
)
AMD = accelerator("pci:0000:02:00.0", vendor="AMD", kind="gpu", driver="amdgpu", uuid="x", mebibytes=16384)
SHARE, WHOLE = DeviceShare(GPU.id, GIB), DeviceShare(GPU.id, whole=True)


def job(limiter: Limiter = Limiter.MPS, *shares: DeviceShare, compute: int | None = None) -> LocalJob:
    requested = Requested(limiter=limiter, gpu_compute=compute)
    return queued(requested=requested, shares=shares, assumed=Assumed(gpus=1, whole=WHOLE in shares))


@pytest.mark.parametrize(
    ("started", "needs"),
    [
        (job(Limiter.MPS, SHARE), True),
        (job(Limiter.MPS, WHOLE), False),
        (job(Limiter.MPS, WHOLE, compute=25), True),
        (job(Limiter.MPS), False),
        (job(Limiter.WATCHDOG, SHARE), False),
        (job(Limiter.NONE, SHARE), False),
    ],
)
def test_a_job_needs_mps_for_a_share_or_for_a_part_of_the_compute(started: LocalJob, needs: bool) -> None:
    assert needs_mps(started) is needs
    if started.shares:
        assert asks_for_mps(started) is needs


def test_gpus_of_nvidias_own_driver_can() -> None:
    assert [can_mps(each) for each in (GPU, JETSON, AMD, replace(GPU, uuid=None))] == [True] + [False] * 3


@pytest.mark.parametrize(
    ("granted", "program", "reason"),
    [
        ([GPU, replace(GPU, id="second")], "/x", "several devices"),
        ([JETSON], "/x", f"MPS cannot serve {JETSON.id}"),
        ([AMD], "/x", f"MPS cannot serve {AMD.id}"),
        ([GPU], None, "nvidia-cuda-mps-control is not installed"),
    ],
)
def test_why_a_job_cannot_have_mps_is_one_line_with_what_to_do(
    granted: list[Accelerator], program: str | None, reason: str
) -> None:
    answer = mps_device(job(Limiter.MPS, SHARE), granted, program)
    assert isinstance(answer, str)
    assert reason in answer
    assert answer.endswith("write --limiter watchdog")
    assert "\n" not in answer


def test_the_device_of_a_job_names_its_daemon() -> None:
    assert mps_device(job(Limiter.MPS, SHARE), [GPU], "/x") == MpsDevice(GPU.id, "GPU-0", "/x")


def test_a_new_job_is_refused_at_once_where_there_is_no_mps(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("bin")
    write_control(folder)
    environ, nothing = {"PATH": str(folder)}, {"PATH": "/nowhere"}
    ask = queued(requested=Requested(gpu_memory=GIB, limiter=Limiter.MPS), assumed=Assumed(gpus=1))
    check_limiter(ask, view(GPU), environ)
    with pytest.raises(SettingsError, match=r"--limiter mps: no GPU with NVIDIA's own driver is here"):
        check_limiter(ask, view(AMD, JETSON), environ)
    with pytest.raises(SettingsError, match="one GPU only; write --limiter watchdog, or --gpus 1"):
        check_limiter(replace(ask, assumed=Assumed(gpus=2)), view(GPU), environ)
    if control_program(nothing) is None:  # it may be where drivers put it
        with pytest.raises(SettingsError, match="nvidia-cuda-mps-control is not installed"):
            check_limiter(ask, view(GPU), nothing)
    check_limiter(replace(ask, assumed=Assumed()), view(), nothing)  # a job for cores asks for none
    check_limiter(replace(ask, requested=Requested(gpu_memory=GIB)), view(AMD), nothing)
