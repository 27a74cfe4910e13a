"""Jobs under MPS with real processes: runners, keepers, and a played daemon; no GPU is needed."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fairlead.history.store import JobHistory
from fairlead.job import Assumed, JobKind, Limiter, LocalJob, LocalState, ProcessRef, Requested
from fairlead.ledger import JobLedger, JobSpec, StateDirectory, boot_id, seconds_since_boot
from fairlead.ledger.liveness import process_ref
from fairlead.local.mps.device import MpsDevice
from fairlead.local.mps.files import KeeperFiles, KeeperStatus
from fairlead.local.reap import archive_ended
from fairlead.local.runner.job_runner import JobRunner
from fairlead.local.runner.signals import CallerState
from fairlead.local.runner.start import NotStarted, start_job
from fairlead.local.upkeep import keep_own_jobs
from fairlead.local.view import StartDecision
from fairlead.need import Need
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests.accelerators import accelerator
from tests.limiter.control import write_control
from tests.local.runner.jobs import FakeMachine, view

LIMIT = 300.0
"""Seconds after which a wait fails the test."""
GPU = accelerator(
    vendor="NVIDIA", kind="gpu", driver="nvidia", uuid="GPU-0", mebibytes=81920, model="h200", name="H200"
)
SIZE = Bytes(3 << 30)
CLIENT = """
echo started $CUDA_MPS_PINNED_DEVICE_MEM_LIMIT $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE >> "$1"
server=$(nvidia-cuda-mps-control client) || exit 9
echo connected $server >> "$1"
while [ ! -e "$2" ]; do kill -0 $server 2> /dev/null || exit 7; sleep 0.02; done
"""
"""A CUDA program: its calls fail once its server is gone, and it ends well once the file $2 is there."""
OBSTINATE = """
echo started >> "$1"
trap '' TERM
while [ ! -e "$2" ]; do sleep 0.02; done
"""
"""A program that does not notice the end of its server, nor SIGTERM."""
_CALLER = CallerState()


class MpsWorld:
    """One user with a GPU and a played control program."""

    def __init__(self, folder: Path, refusal: str = "") -> None:
        self.folder = folder
        self.state = folder / "state"
        self.program = write_control(folder / "bin", refusal)
        own = {name: value for name, value in os.environ.items() if not name.startswith("FAIRLEAD_")}
        self.environ = {
            **own,
            "FAIRLEAD_STATE": str(self.state),
            "HOME": str(folder),
            "PATH": f"{folder}/bin:{os.environ.get('PATH', os.defpath)}",
        }
        self.ledger = JobLedger(StateDirectory.open(self.environ))
        self.history = JobHistory.open(self.ledger.place, self.environ)
        self.device = MpsDevice(GPU.id, "GPU-0", self.program)
        self.files = KeeperFiles.of(self.ledger.place.private, self.device)
        self.gate = folder / "gate"
        self.runners: dict[str, int] = {}
        """The process of each job's runner, by job id."""

    def add(self, script: str = CLIENT, gpu_compute: int | None = None) -> LocalJob:
        """Record a queued job of 3 GiB under MPS."""
        job = LocalJob(
            id="",
            number=0,
            name="job",
            uid=os.geteuid(),
            user="me",
            kind=JobKind.RUN,
            state=LocalState.QUEUED,
            submitted=1.7e9,
            submitted_boot=seconds_since_boot(),
            boot=boot_id(),
            requested=Requested(gpu_memory=SIZE, gpu_compute=gpu_compute, limiter=Limiter.MPS),
            assumed=Assumed(gpus=1, need=Need.fixed(SIZE)),
            runner=process_ref(os.getpid()),
        )
        argv = ("sh", "-c", script, "program", str(self.log), str(self.gate))
        with self.ledger.locked():
            return self.ledger.add(job, JobSpec(argv, "/", self.environ))

    @property
    def log(self) -> Path:
        """The file to which the programs write."""
        return self.folder / "log"

    def lines(self, word: str) -> list[str]:
        """Return the lines of the programs that begin with a word."""
        text = self.log.read_text() if self.log.exists() else ""
        return [line for line in text.splitlines() if line.startswith(word)]

    def start(self, script: str = CLIENT, speed: float = 1.0, gpu_compute: int | None = None) -> str:
        """Start a job in a runner of its own, and return its id; with `speed` its clock runs faster."""
        job = self.add(script, gpu_compute)
        origin = seconds_since_boot()

        def clock() -> float:
            return origin + speed * (seconds_since_boot() - origin)

        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                self._run(job, clock)
            finally:
                os._exit(0)
        self.runners[job.id] = pid
        until(lambda: self.job(job.id).state is not LocalState.QUEUED, "the record of its start")
        return job.id

    def _run(self, job: LocalJob, clock: Callable[[], float]) -> None:
        _CALLER.block()
        seen = view(GPU)
        decision = StartDecision((DeviceShare(GPU.id, SIZE),))
        with self.ledger.locked():
            running = start_job(self.ledger, job, decision, seen, _CALLER, None)
        assert not isinstance(running, NotStarted), running.reason
        if running.mps is not None:
            running.mps.clock = clock
        machine = FakeMachine(lambda _: seen)
        JobRunner(self.ledger, running, _CALLER, self.environ, print, machine, clock).run_until_end()

    def job(self, job_id: str) -> LocalJob:
        """Return a job from the ledger, or from the history."""
        return next(job for job in (*self.ledger.own_jobs(), *self.history.jobs(5000)) if job.id == job_id)

    def end_of(self, job_id: str) -> LocalJob:
        """Wait for the end of a job and of its runner."""
        self.reap(job_id)
        archive_ended(self.ledger, self.history)
        until(lambda: self.job(job_id).state.ended, f"the end of {self.job(job_id)}")
        return self.job(job_id)

    def reap(self, job_id: str) -> None:
        """Wait for the end of a runner."""
        pid = self.runners.pop(job_id, None)
        if pid is not None:
            until(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid, f"the end of the runner of job {job_id}")

    def describe(self) -> str:
        """Return what a failed test must show: the jobs, and what keepers and programs wrote."""
        files = [Path(path) for path in (self.files.log, self.log) if os.path.exists(path)]
        return f"{self.ledger.own_jobs()} {self.history.jobs()} {[file.read_text() for file in files]}"

    def status(self) -> KeeperStatus | None:
        """Return what the keeper says."""
        return self.files.read()

    def daemon(self) -> ProcessRef | None:
        """Return the daemon that the keeper says is alive."""
        status = self.status()
        return status.daemon if status is not None else None

    def keeper(self) -> int | None:
        """Return the process that keeps the daemon."""
        return next((pid for pid in self.processes() if b"fairlead.local.mps" in _words(pid)), None)

    def processes(self) -> list[int]:
        """Return the living processes of this world: keepers, daemons, servers, runners' commands."""
        marks = (os.fsencode(self.state), os.fsencode(self.files.daemon_folder.path))
        found = []
        for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):
            with suppress(OSError):
                environ = Path(f"/proc/{pid}/environ").read_bytes()
                if pid != os.getpid() and any(mark in environ for mark in marks) and _is_living(pid):
                    found.append(pid)
        return found

    def next_command(self) -> None:
        """Do what each command of the user does: take over what a killed keeper has left."""
        assert keep_own_jobs(self.ledger, self.history, self.environ) == ""

    def nothing_is_left(self) -> bool:
        """Return whether no process and no file of MPS is left."""
        folders = (self.files.daemon_folder.path, os.path.join(self.ledger.place.private, "mps"))
        return not self.processes() and not any(map(os.path.lexists, folders))

    def close(self) -> None:
        """End every process of this world."""
        for pid in self.runners.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        for _ in range(3000):
            if not (pids := self.processes()):
                break
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        self.files.remove_daemon_folder()


def until(arrived: Callable[[], bool], what: str, describe: Callable[[], str] = str) -> None:
    """Wait until something has happened."""
    end = time.monotonic() + LIMIT
    while not arrived():
        assert time.monotonic() < end, f"waited {LIMIT:g} s for {what}: {describe()}"
        time.sleep(0.01)


def _words(pid: int) -> list[bytes]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return []


def _is_living(pid: int) -> bool:
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return fields[0] not in "ZX"
