"""Small worlds of one machine: jobs, devices and a status, for tests of its views."""

from dataclasses import replace
from typing import Any

from fairlead.inventory import Accelerator, Machine, State
from fairlead.job import Assumed, JobKind, JobUse, LocalJob, LocalState, ProcessRef, Requested
from fairlead.local.status import ForeignProcess, LocalStatus
from fairlead.local.view import DeviceProcess, DeviceView, MachineView, WaitDecision
from fairlead.share import DeviceShare
from fairlead.units import Bytes, Seconds

GI = 2**30
NOW = 10_000.0
"""Seconds since the boot."""


def job(number: int, state: str = "queued", **fields: Any) -> LocalJob:
    """Return a job of ana, submitted one minute ago."""
    plain = LocalJob(
        id=str(number),
        number=number,
        name=f"job-{number}",
        uid=1000,
        user="ana",
        kind=JobKind.SUBMIT,
        state=LocalState(state),
        submitted=1_700_000_000.0 + number,
        submitted_boot=NOW - 60,
        boot="this-boot",
    )
    return replace(plain, **fields)


def running(number: int, device: str = "", held: float = 0, booked: float = 0, **fields: Any) -> LocalJob:
    """Return a running job that holds so many GiB of a device, of so many that are booked."""
    use = JobUse(
        at=NOW,
        cpu=1500,
        memory=Bytes(2 * GI),
        gpu_memory={device: Bytes(round(held * GI))} if device else {},
        gpu_busy={device: 0.25} if device else {},
    )
    shares = (DeviceShare(device, Bytes(round(booked * GI)), whole=not booked),) if device else ()
    base = job(
        number,
        "running",
        started=1_700_000_030.0,
        started_boot=NOW - 30,
        shares=shares,
        measured=use,
        command=ProcessRef(4000 + number, 1, "this-boot"),
    )
    return replace(base, **fields)


def device(name: str, used: float, *pids: int, model: str = "a100", **fields: Any) -> DeviceView:
    """Return a GPU of 40 GiB of which so many GiB are used, and on which these processes run."""
    accelerator = Accelerator(
        id=name,
        model=model,
        name="GPU",
        vendor="NVIDIA",
        kind="gpu",
        state=State.HEALTHY,
        reason="",
        confidence=1.0,
        candidates=(model,),
        bus="pci:0000:01:00.0",
        memory=Bytes(40 * GI),
    )
    processes = tuple(DeviceProcess(pid, Bytes(GI)) for pid in pids)
    plain = DeviceView(accelerator, Bytes(round(used * GI)), busy=0.5, processes=processes)
    return replace(plain, **fields)


def machine(*devices: DeviceView) -> MachineView:
    """Return a machine of 8 cores and 32 GiB, 3.5 cores and 8 GiB of which are in use."""
    host = Machine("x86_64", None, (), 8, Bytes(32 * GI), None, ())
    return MachineView(NOW, host, devices, 8000, 3500, Bytes(32 * GI), Bytes(24 * GI))


def status(*jobs: LocalJob, view: MachineView | None = None, **fields: Any) -> LocalStatus:
    """Return a status in which queued jobs wait in the order of their numbers, one minute each."""
    queued = [each for each in jobs if each.state is LocalState.QUEUED]
    waits = {
        each.id: WaitDecision(place, each.reason, Seconds(60.0 * place))
        for place, each in enumerate(queued, start=1)
    }
    return LocalStatus(jobs, NOW, view if view is not None else machine(), waits, **fields)


def busy_status() -> LocalStatus:
    """Return a machine with two GPUs, three running jobs, two that wait, and a process of another user."""
    reason = "needs 30 GiB of an accelerator; the most that is free is 12 GiB"
    return status(
        running(1, "gpu-a", 8, 10, name="train"),
        running(2, "gpu-a", 12, 16, name="embed", user="bo", uid=1001),
        running(3, "gpu-b", 30, name="finetune-the-large-language-model"),
        job(
            4,
            name="big",
            reason=reason,
            requested=Requested(gpu_memory=Bytes(30 * GI)),
            assumed=Assumed(gpus=1),
        ),
        job(5, name="later", reason="waits for job 4", requested=Requested(cpus=2), after=("4",)),
        view=machine(device("gpu-a", 24, 4001, 4002, 77), device("gpu-b", 30.5, 4003)),
        foreign=(ForeignProcess(77, "python3", 1002, "cy", {"gpu-a": Bytes(3 * GI)}),),
    )
