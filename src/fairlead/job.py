"""LocalJob: a command that waits for, or runs on, this machine's accelerators, cores and memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Final

from fairlead.compat import StrEnum
from fairlead.need import Need
from fairlead.share import DeviceShare
from fairlead.units import Bytes, Seconds

NO_BYTES: Final = Bytes(0)

MOST_PRIORITY: Final = 1000
"""Priorities lie between minus this and this; 0 is the default."""


class LocalState(StrEnum):
    """The state of a job, as `fairlead ps` prints it."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether the job has ended."""
        return self not in (LocalState.QUEUED, LocalState.RUNNING)


class JobKind(StrEnum):
    """How a job came to be."""

    RUN = "run"
    """`fairlead run`: the process that waits for it is in the foreground, and the job ends with it."""
    SUBMIT = "submit"
    """`fairlead submit`: it waits without a process of its own, and survives a logout and a restart."""
    ADOPTED = "adopted"
    """A process that was not started through fairlead."""


class Limiter(StrEnum):
    """What holds a job to its share of an accelerator."""

    WATCHDOG = "watchdog"
    """Its memory is measured, and it is ended once it holds more than its limit."""
    MPS = "mps"
    """CUDA's Multi-Process Service refuses what exceeds the limit; the watchdog stays on."""
    NONE = "none"
    """Nothing: the size of the job is a promise."""


@dataclass(frozen=True, slots=True)
class ProcessRef:
    """One process, never confused with a later one of the same pid."""

    pid: int
    start: int
    """Clock ticks between the boot and the start of the process: field 22 of /proc/PID/stat."""
    boot: str
    """/proc/sys/kernel/random/boot_id."""


@dataclass(frozen=True, slots=True)
class Requested:
    """What the user states; None: not stated."""

    cpus: float | None = None
    memory: Bytes | None = None
    """RAM."""
    gpu_memory: Bytes | None = None
    """Of each accelerator: what the job asks for."""
    gpu_limit: Bytes | None = None
    """Of each accelerator: what the job may hold at most; with one, the request may be smaller."""
    gpus: int | None = None
    """Accelerators; whole ones, unless `gpu_memory` is stated too. 0: none."""
    device: str = ""
    """The id, catalog id or vendor of the accelerator that the job needs; empty: any."""
    model: str = ""
    """The base name of the model file; the file itself is in the private specification."""
    slo: Seconds | None = None
    """The latency that a query of the model must meet."""
    gpu_compute: int | None = None
    """Hundredths of the multiprocessors of each accelerator that the job may use; MPS alone can limit it."""
    limiter: Limiter = Limiter.WATCHDOG


@dataclass(frozen=True, slots=True)
class Assumed:
    """What a job counts for before it is measured, and why: stated, learned or assumed by default."""

    cpu: int = 1000
    """Thousandths of a core."""
    memory: Bytes = NO_BYTES
    """RAM."""
    gpus: int = 0
    """Accelerators; 0: a job for cores and RAM."""
    whole: bool = False
    """It gets its accelerators alone."""
    need: Need | None = None
    """The memory of each accelerator that it is expected to hold."""
    seconds: Seconds | None = None
    """How long it is expected to run; None: unknown."""
    firm_cpu: bool = False
    """The user states the cores: they are booked for its whole life. Otherwise measured use counts."""
    firm_memory: bool = False
    """The user states the RAM: it is booked for its whole life. Otherwise measured use counts."""
    devices: Mapping[str, float] = field(default_factory=dict)
    """By accelerator id, the predicted seconds of one query of its model; only these are candidates.
    Empty: every accelerator is a candidate."""
    source: str = ""
    """For people: `stated`, `learned from 3 runs of train.py`, `predicted for resnet50.onnx`, ..."""
    default_memory: bool = False
    """Nothing is known of its RAM: `memory` is a default, which counts for less as the job runs."""


@dataclass(frozen=True, slots=True)
class JobUse:
    """What a running job uses, measured by its runner."""

    at: float
    """Seconds since the boot."""
    cpu: int = 0
    """Thousandths of a core, averaged over the last seconds."""
    memory: Bytes = NO_BYTES
    """RAM that its processes hold."""
    gpu_memory: Mapping[str, Bytes] = field(default_factory=dict)
    """By accelerator id."""
    gpu_busy: Mapping[str, float] = field(default_factory=dict)
    """By accelerator id, 0 to 1."""
    peak_memory: Bytes = NO_BYTES
    peak_gpu_memory: Bytes = NO_BYTES
    """The most that it held of one accelerator."""
    settled: bool = False
    """It has stopped growing: what it uses counts instead of what was assumed."""


@dataclass(frozen=True, slots=True)
class LocalJob:
    """One job. Its owner alone writes its record; every user can read it."""

    id: str
    number: int
    """The order of arrival on this machine, across users; unlike a time it never runs backwards."""
    name: str
    uid: int
    """The owner, from the owner of the record's file: what the record says of itself does not count."""
    user: str
    kind: JobKind
    state: LocalState
    submitted: float
    """Times are seconds since the epoch, for people; no decision reads them."""
    submitted_boot: float
    """Seconds since the boot; across a boot it means nothing."""
    boot: str
    """The boot in which the record was written last."""
    requested: Requested = Requested()
    assumed: Assumed = Assumed()
    priority: int = 0
    after: tuple[str, ...] = ()
    """Ids of jobs that must be done first."""
    timeout: Seconds | None = None
    key: str = ""
    """A digest of what the command or model is learned under."""
    shares: tuple[DeviceShare, ...] = ()
    """The accelerators that it holds while it runs."""
    runner: ProcessRef | None = None
    """The process that waits for the job, or started its command."""
    command: ProcessRef | None = None
    """The command's own process: while it lives, the job holds what it was given."""
    measured: JobUse | None = None
    started: float | None = None
    started_boot: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    reason: str = ""
    """Why it waits, failed or was cancelled; for people."""

    @property
    def device(self) -> str | None:
        """The accelerators of a running or ended job, joined by commas; `cpu` without any."""
        if self.state is LocalState.QUEUED or (self.started is None and not self.shares):
            return None
        return ",".join(share.device for share in self.shares) or "cpu"

    @property
    def memory_limit(self) -> Bytes | None:
        """What the job may hold of each accelerator: the stated limit, or a firm size; None: no limit."""
        if self.requested.limiter is Limiter.NONE or not any(not share.whole for share in self.shares):
            return None
        if self.requested.gpu_limit is not None:
            return self.requested.gpu_limit
        need = self.assumed.need
        return need.peak if need is not None and need.firm else None

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract of `fairlead ps -o json`."""
        requested = self.requested
        return {
            "id": self.id,
            "name": self.name,
            "user": self.user,
            "state": self.state.value,
            "exit_code": self.exit_code,
            "device": self.device,
            "requested": {
                "cpus": requested.cpus,
                "memory_bytes": requested.memory,
                "gpu_mem_bytes": requested.gpu_memory,
            },
            "reason": self.reason,
            "submitted_at": timestamp(self.submitted),
            "started_at": timestamp(self.started),
            "ended_at": timestamp(self.ended),
        }


def timestamp(seconds: float | None) -> str | None:
    """Return a time as RFC 3339 in UTC, with milliseconds; None stays None."""
    if seconds is None:
        return None
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
