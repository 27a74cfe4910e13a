"""Jobs and ledgers for tests, and functions that run in a child process: as another user, or until killed."""

import ctypes
import os
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairlead.job import Assumed, JobKind, JobUse, Limiter, LocalJob, LocalState, ProcessRef, Requested
from fairlead.ledger import JobLedger, JobSpec, StateDirectory, process_ref, seconds_since_boot
from fairlead.ledger.files import LedgerFiles
from fairlead.need import Need, NeedSource
from fairlead.share import DeviceShare
from fairlead.units import Bytes, Seconds

SPEC = JobSpec(("sleep", "1"), "/", {"SECRET": "of this user"})
_PROCESS = ProcessRef(4711, 12345, "boot-1")
FULL_JOB = LocalJob(
    id="7",
    number=7,
    name="train.py",
    uid=-1,
    user="",
    kind=JobKind.SUBMIT,
    state=LocalState.FAILED,
    submitted=1.5,
    submitted_boot=2.5,
    boot="boot-1",
    requested=Requested(
        1.5, Bytes(1), Bytes(2), Bytes(3), 4, "gpu-0", "resnet.onnx", Seconds(0.03), 25, Limiter.MPS
    ),
    assumed=Assumed(
        cpu=250,
        memory=Bytes(5),
        gpus=1,
        whole=True,
        need=Need((Bytes(1), Bytes(2)), (0.25, 0.75), True, NeedSource.HISTORY, "few runs", 1e-4),
        seconds=Seconds(60.0),
        firm_cpu=True,
        firm_memory=True,
        devices={"gpu-0": 0.5},
        source="stated",
        default_memory=True,
    ),
    priority=-3,
    after=("5", "6"),
    timeout=Seconds(9.0),
    key="abc",
    shares=(DeviceShare("gpu-0", Bytes(8), 250, False, True), DeviceShare("gpu-1", whole=True)),
    runner=_PROCESS,
    command=replace(_PROCESS, pid=4712),
    measured=JobUse(3.5, 900, Bytes(6), {"gpu-0": Bytes(7)}, {"gpu-0": 0.5}, Bytes(8), Bytes(9), True),
    started=4.5,
    started_boot=5.5,
    ended=6.5,
    exit_code=0,
    reason="its runner was killed",
)
"""A job in which no field has its default, but for the exit code."""
NEW_MOUNTS = 0x00020000
"""CLONE_NEWNS."""
PRIVATE_MOUNTS = 0x4000 | 0x40000
"""MS_REC and MS_PRIVATE."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become other users and mount")


def a_job(**changes: Any) -> LocalJob:
    """Return a new `run` of this process, which is not in a ledger yet."""
    job = LocalJob(
        id="",
        number=0,
        name="train.py",
        uid=-1,
        user="",
        kind=JobKind.RUN,
        state=LocalState.QUEUED,
        submitted=time.time(),
        submitted_boot=seconds_since_boot(),
        boot="",
        runner=myself(),
    )
    return replace(job, **changes)


def a_submit(**changes: Any) -> LocalJob:
    """Return a new `submit`."""
    return a_job(**{"kind": JobKind.SUBMIT, "runner": None, **changes})


def myself() -> ProcessRef:
    """Return this process."""
    ref = process_ref(os.getpid())
    assert ref is not None
    return ref


def the_dead() -> ProcessRef:
    """Return a process that has ended."""
    pid = os.fork()
    if not pid:
        os._exit(0)
    ref = process_ref(pid)
    os.waitpid(pid, 0)
    assert ref is not None
    return ref


class FlushedFiles(LedgerFiles):
    """Notes what is to be flushed to the disk instead of waiting for the disk, which may be busy."""

    def __init__(self) -> None:
        self.flushed: list[str] = []

    def fsync(self, file: int) -> None:
        self.flushed.append(os.path.basename(os.readlink(f"/proc/self/fd/{file}")))


def a_ledger(path: Path, files: LedgerFiles | None = None) -> JobLedger:
    """Return the ledger in a folder, of the current user; it does not wait for the disk."""
    return JobLedger(StateDirectory.at(str(path / "state")), files=files or FlushedFiles())


def added(ledger: JobLedger, job: LocalJob | None = None) -> LocalJob:
    """Add a job under the lock."""
    with ledger.locked():
        return ledger.add(job or a_job(), SPEC)


def in_child(action: Callable[[], object]) -> str:
    """Run a function in a forked process; return what it raised, or empty."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            action()
        except BaseException:  # noqa: BLE001 - the parent raises it
            os.write(writer, traceback.format_exc()[-4000:].encode())
        os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as stream:
        text = stream.read()
    _, status = os.waitpid(pid, 0)
    return text or ("" if status == 0 else f"ended with status {status}")


def as_user(uid: int, action: Callable[[], object]) -> str:
    """Run a function in a process of another user; return what it raised, or empty."""

    def become() -> None:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        action()

    return in_child(become)


def mount(kind: str, target: str, options: str) -> None:
    """Mount a file system that only this process and its children see."""
    libc = ctypes.CDLL(None, use_errno=True)
    for result in (
        libc.unshare(NEW_MOUNTS),
        libc.mount(b"none", b"/", None, PRIVATE_MOUNTS, None),
        libc.mount(kind.encode(), target.encode(), kind.encode(), 0, options.encode()),
    ):
        if result:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), target)
