"""Adoption: a running process that was not started through fairlead becomes a job."""

import os
import time
from collections.abc import Iterable, Mapping, Sequence

from fairlead.errors import FairleadError, SettingsError
from fairlead.job import Assumed, JobKind, JobUse, LocalJob, LocalState, ProcessRef, Requested
from fairlead.ledger.ledger import JobLedger
from fairlead.ledger.liveness import boot_id, is_alive, process_ref, seconds_since_boot
from fairlead.ledger.spec import JobSpec
from fairlead.ledger.users import user_name
from fairlead.local.processes import children_of, descendants, process_name, process_uid
from fairlead.local.sample import JobSampler
from fairlead.local.status import is_mps, job_processes
from fairlead.local.view import MachineView
from fairlead.share import DeviceShare
from fairlead.units import Bytes, Seconds

SOURCE = "adopted: what its process held at that time"


def adopt_process(
    ledger: JobLedger, view: MachineView, pid: int, name: str = "", gpu_memory: Bytes | None = None
) -> LocalJob:
    """Record a process as a running job of this user, and return the job; call it under the lock.

    The job holds the accelerators on which the driver reports the process or its children, with the memory
    that they hold; `gpu_memory` books more of each. A FairleadError says why a process cannot be adopted.
    """
    process = _checked_process(ledger, pid)
    children = children_of(ledger.root)
    if problem := adoption_problem(pid, ledger.jobs(), children):
        raise FairleadError(problem, "`fairlead ps` lists the jobs")
    shares = held_shares(view, descendants(pid, children), gpu_memory)
    if pid == 1 and not shares:  # in a container it can be the program that uses the accelerator
        raise FairleadError(
            "process 1 starts every other one, and uses no accelerator",
            "adopt the process that does the work",
        )
    if gpu_memory is not None and not shares:
        raise SettingsError(
            f"--gpu-mem: process {pid} uses no accelerator of this machine", "leave the option out"
        )
    use = JobSampler(process, shares, lambda: view.devices, seconds_since_boot, ledger.root).sample()
    job = _job(process, name or process_name(pid, ledger.root) or str(pid), shares, use, gpu_memory)
    return ledger.add(job, JobSpec((), "/"))


def adoption_problem(pid: int, jobs: Sequence[LocalJob], children: Mapping[int, tuple[int, ...]]) -> str:
    """Return why a process cannot become a job beside these jobs; empty: it can."""
    owner = job_processes(jobs, children).get(pid)
    if owner is not None:
        return f"process {pid} belongs to job {owner}"
    below = descendants(pid, children)
    for job in jobs:
        processes = [ref.pid for ref in (job.runner, job.command) if ref is not None]
        if not job.state.ended and below.intersection(processes):
            return f"process {pid} contains the processes of job {job.id}"
    return ""


def held_shares(
    view: MachineView, pids: Iterable[int], least: Bytes | None = None
) -> tuple[DeviceShare, ...]:
    """Return what processes hold of each accelerator; at least `least` of each that they use."""
    members = frozenset(pids)
    shares = []
    for device in view.devices:
        held = [process.memory or 0 for process in device.processes or () if process.pid in members]
        if held:
            shares.append(DeviceShare(device.accelerator.id, Bytes(max(sum(held), least or 0))))
    return tuple(shares)


def _checked_process(ledger: JobLedger, pid: int) -> ProcessRef:
    """Return the process, if it lives, is this user's, and is not fairlead itself."""
    process = process_ref(pid, ledger.root) if pid > 0 else None
    uid = process_uid(pid, ledger.root)
    if process is None or uid is None or not is_alive(process, ledger.root):
        raise FairleadError(f"no process {pid}", "`fairlead adopt --list` lists those that can be adopted")
    if ledger.place.uid not in (0, uid):
        owner = user_name(uid)
        others = "only root" if uid == 0 else f"{owner} or root"
        raise FairleadError(f"process {pid} belongs to {owner}", f"{others} can adopt it")
    words = _command_line(pid, ledger.root)
    if pid == os.getpid() or is_fairlead(words):
        raise FairleadError(
            f"process {pid} is fairlead itself", "adopt the process that uses the accelerator"
        )
    if is_mps(process_name(pid, ledger.root)):
        raise FairleadError(f"process {pid} is a part of MPS", "adopt its clients")
    if not words:
        raise FairleadError(f"process {pid} has no command: it is the kernel's own", "adopt another process")
    return process


def _command_line(pid: int, root: str) -> list[str]:
    try:
        with open(os.path.join(root, f"proc/{pid}/cmdline"), "rb") as file:
            data = file.read(4096)
    except OSError:
        return []
    return [word.decode("utf-8", "replace") for word in data.split(b"\0") if word]


def is_fairlead(words: Sequence[str]) -> bool:
    """Return whether a command line runs this program, as `bin/fairlead` or `python -m fairlead` do."""
    program, *arguments = [os.path.basename(words[0]), *words[1:]] if words else [""]
    if program.startswith("python"):
        first = next((index for index, word in enumerate(arguments) if not word.startswith("-")), None)
        module = first is not None and first > 0 and arguments[first - 1] == "-m"
        program = "" if first is None else arguments[first].partition(".")[0] if module else arguments[first]
    return os.path.basename(program) == "fairlead"


def _job(
    process: ProcessRef, name: str, shares: tuple[DeviceShare, ...], use: JobUse, gpu_memory: Bytes | None
) -> LocalJob:
    now, at = time.time(), seconds_since_boot()
    began = process.start / os.sysconf("SC_CLK_TCK")
    held = {share.device: use.gpu_memory.get(share.device, share.memory) for share in shares}
    return LocalJob(
        id="",
        number=0,
        name=name,
        uid=os.geteuid(),
        user="",
        kind=JobKind.ADOPTED,
        state=LocalState.RUNNING,
        submitted=now,
        submitted_boot=at,
        boot=boot_id(),
        requested=Requested(gpu_memory=gpu_memory),
        assumed=Assumed(use.cpu, use.memory, len(shares), source=SOURCE),
        shares=shares,
        command=process,
        measured=JobUse(
            at=at,
            cpu=use.cpu,
            memory=use.memory,
            gpu_memory=held,
            peak_memory=use.memory,
            peak_gpu_memory=max(held.values(), default=Bytes(0)),
            settled=True,
        ),
        started=now - Seconds(max(0.0, at - began)),
        started_boot=began,
    )
