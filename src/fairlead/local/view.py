"""MachineView, QueuePlan: one machine as it is now, and what was decided for the jobs that wait on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairlead.inventory import Accelerator, Machine
from fairlead.share import DeviceShare
from fairlead.units import Bytes, Seconds, Watts


@dataclass(frozen=True, slots=True)
class DeviceProcess:
    """A process on an accelerator."""

    pid: int
    memory: Bytes | None
    """None: the driver does not report it."""
    busy: float | None = None
    """0 to 1."""


@dataclass(frozen=True, slots=True)
class DeviceView:
    """One accelerator as it is now; a MIG instance is an accelerator of its own."""

    accelerator: Accelerator
    memory_used: Bytes | None = None
    """By all processes, ours and others; None: not measured."""
    busy: float | None = None
    power: Watts | None = None
    processes: tuple[DeviceProcess, ...] | None = None
    """None: not reported."""
    fault: str = ""
    """Why no job may start on it now; empty: none."""
    lost: bool = False
    """Whether programs on it cannot go on: it fell off the bus, or its driver has hung for a minute. With any
    other fault a running job goes on."""
    recoverable: bool = False
    """Whether the fault may pass, or a reset or a reboot ends it: queued jobs wait for that."""
    temperature: float | None = None
    """Of the chip, in degrees Celsius."""


@dataclass(frozen=True, slots=True)
class MachineView:
    """The machine as it is now."""

    at: float
    """Seconds since the boot."""
    machine: Machine
    devices: tuple[DeviceView, ...]
    """Every accelerator that is not a CPU."""
    cpu: int
    """Thousandths of cores that this process may use."""
    cpu_used: int | None
    """By all processes, averaged over the last second or so; None: not measured yet."""
    memory: Bytes
    memory_available: Bytes
    """MemAvailable, or what the memory cgroup leaves, whichever is less."""
    problems: tuple[str, ...] = ()
    """What could not be read, one line each: `NVML is missing: ...`, `driver mismatch: ...`."""


@dataclass(frozen=True, slots=True)
class StartDecision:
    """A queued job starts now, and holds these shares."""

    shares: tuple[DeviceShare, ...] = ()
    cpu: int = 0
    """Thousandths of cores booked."""


@dataclass(frozen=True, slots=True)
class WaitDecision:
    """A queued job waits, or can never run."""

    position: int
    """1 is the first in the queue."""
    reason: str
    """One line, for people."""
    starts_in: Seconds | None = None
    """The expected wait; None: unknown."""
    impossible: bool = False
    """No wait will help: it needs more than the machine has."""
    faulty: bool = False
    """It waits until an accelerator is healthy again."""


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """What was decided for every queued job, by job id."""

    starts: Mapping[str, StartDecision] = field(default_factory=dict)
    waits: Mapping[str, WaitDecision] = field(default_factory=dict)
