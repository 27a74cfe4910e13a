"""The events of the scheduler's state machine, beside changes of objects and answers to its effects."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fairlead.cluster.watch.changes import ObjectChange
from fairlead.serve.machine.events import Start, Stop, Tick
from fairlead.serve.machine.flow import Answered
from fairlead.units import Bytes
from fairlead.use import DeviceKey, PodDeviceKey, UseFault, UseReport, UseSample


@dataclass(frozen=True, slots=True)
class Synced:
    """Every object was listed."""

    claims: bool
    """Whether the API server serves ResourceClaims."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """Apply what changed, and decide for the next pod or gang."""


@dataclass(frozen=True, slots=True)
class Explain:
    """A client asks why a pod waits."""

    namespace: str
    name: str
    uid: str
    rest: float = 0.0
    """Seconds for which no answer is computed, as the last ones took long."""


@dataclass(frozen=True, slots=True)
class Announce:
    """The annotations by which the Lease shows where its holder answers."""

    annotations: dict[str, str]


class MeasuredUse(NamedTuple):
    """One measurement as a row: a recording has no keys but texts."""

    pod_uid: str
    """Empty: of the whole device."""
    node: str
    device: str
    at: float
    memory: int | None
    busy: float | None


class ForeignUse(NamedTuple):
    """Memory of a device that processes outside pods hold."""

    node: str
    device: str
    memory: int


@dataclass(frozen=True, slots=True)
class UsageRefreshed:
    """The use of accelerators was measured: a `UseReport` in the form that a recording can hold."""

    at: float
    source: str = ""
    samples: tuple[MeasuredUse, ...] = ()
    foreign: tuple[ForeignUse, ...] = ()
    faults: Mapping[str, int] = field(default_factory=dict)
    detail: str = ""

    @classmethod
    def of(cls, report: UseReport) -> "UsageRefreshed":
        """Return a report as an event."""
        rows = [MeasuredUse("", *key, one.at, one.memory, one.busy) for key, one in report.devices.items()]
        rows += [MeasuredUse(*key, one.at, one.memory, one.busy) for key, one in report.pods.items()]
        foreign = tuple(ForeignUse(*key, size) for key, size in report.foreign.items())
        faults = {fault.value: count for fault, count in report.faults.items()}
        return cls(report.at, report.source, tuple(rows), foreign, faults, report.detail)

    def report(self) -> UseReport:
        """Return the event as the report that it was made of."""
        devices: dict[DeviceKey, UseSample] = {}
        pods: dict[PodDeviceKey, UseSample] = {}
        for pod, node, device, at, memory, busy in self.samples:
            sample = UseSample(at, None if memory is None else Bytes(memory), busy)
            if pod:
                pods[PodDeviceKey(pod, node, device)] = sample
            else:
                devices[DeviceKey(node, device)] = sample
        foreign = {DeviceKey(one.node, one.device): Bytes(one.memory) for one in self.foreign}
        faults = {UseFault(name): count for name, count in self.faults.items()}
        return UseReport(self.at, self.source, devices, pods, foreign, faults, self.detail)


Event = (
    ObjectChange[Any] | Answered | Start | Synced | Cycle | Tick | Explain | Announce | Stop | UsageRefreshed
)
