"""Small worlds of one machine: its view, jobs that ended on it, and what they used."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from fairlead.history.outcome import JobOutcome
from fairlead.history.store import JobHistory, LearnedFrom
from fairlead.inventory import Accelerator, Machine
from fairlead.job import JobKind, LocalJob, LocalState, Requested
from fairlead.local.view import DeviceView, MachineView
from fairlead.series import Series
from fairlead.share import DeviceShare
from fairlead.units import Bytes, Seconds
from tests.accelerators import accelerator

GIB = 1 << 30
_LATER = count(1)
GPU = replace(accelerator(vendor="NVIDIA", kind="gpu", mebibytes=16 << 10), id="gpu-0")


def machine(*accelerators: Accelerator) -> MachineView:
    """Return a machine of 8 cores and 32 GiB."""
    return MachineView(
        at=1000.0,
        machine=Machine(cpus=8, memory=Bytes(32 * GIB)),
        devices=tuple(DeviceView(each) for each in accelerators),
        cpu=8000,
        cpu_used=None,
        memory=Bytes(32 * GIB),
        memory_available=Bytes(30 * GIB),
    )


def ended(number: int = 1, state: LocalState = LocalState.DONE, **fields: Any) -> LocalJob:
    """Return a job that ended."""
    values: dict[str, Any] = {
        "id": str(number),
        "number": number,
        "name": "train.py",
        "uid": 1000,
        "user": "ada",
        "kind": JobKind.RUN,
        "state": state,
        "submitted": 1.7e9 + number,
        "submitted_boot": 10.0,
        "boot": "boot-1",
        "started": 1.7e9 + number,
        "ended": 1.7e9 + number + 60,
        "exit_code": 0 if state is LocalState.DONE else 1,
    }
    return LocalJob(**{**values, **fields})


def learn(history: JobHistory, keys: Sequence[str], name: str, outcome: JobOutcome, job: LocalJob) -> bool:
    """Keep a job as one of its own, and what it teaches."""
    job = replace(job, submitted=job.submitted + next(_LATER))
    return history.add(job, runs=[LearnedFrom(keys, name, outcome)])


def used(gpu: Sequence[float] = (), ram: Sequence[float] = (1.0, 1.0, 1.0, 1.0), **fields: Any) -> JobOutcome:
    """Return what a job used: GiB at samples every two seconds."""
    return JobOutcome(
        **{
            "seconds": Seconds(2.0 * max(len(gpu), len(ram))),
            "memory": _series(ram),
            "gpu_memory": _series(gpu),
            "cpu_mean": 500,
            "cpu_high": 1500,
            "used_accelerator": True if any(gpu) else None,
            "device_memory": GPU.memory if any(gpu) else None,
            **fields,
        }
    )


def shared(size: float) -> tuple[DeviceShare, ...]:
    """Return a share of the GPU in GiB."""
    return (DeviceShare("gpu-0", Bytes(round(size * GIB))),)


WHOLE = (DeviceShare("gpu-0", whole=True),)


def asked(gpu: float | None = None, limit: float | None = None, **fields: Any) -> Requested:
    """Return a request in GiB of each accelerator."""
    return Requested(gpu_memory=_bytes(gpu), gpu_limit=_bytes(limit), **fields)


def _bytes(size: float | None) -> Bytes | None:
    return None if size is None else Bytes(round(size * GIB))


def _series(sizes: Sequence[float]) -> Series:
    return Series(tuple(2.0 * (at + 1) for at in range(len(sizes))), tuple(size * GIB for size in sizes))
