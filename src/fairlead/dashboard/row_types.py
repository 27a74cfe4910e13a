"""The rows of the dashboard's tables, and the type of all parts of answers."""

from typing import Final, Literal

from msgspec import Struct


class ApiAnswer(Struct, frozen=True, kw_only=True, gc=False):
    """A part of an answer."""


class Row(ApiAnswer, frozen=True, kw_only=True):
    """A row of a table; the key is unique in its table."""

    key: str


class NodeRow(Row, frozen=True, kw_only=True):
    """A node of a cluster, or this machine."""

    name: str
    state: Literal["ready", "not-ready", "cordoned"]
    reason: str = ""
    cpu_milli: int
    cpu_used_milli: int | None = None
    memory_bytes: int
    memory_used_bytes: int | None = None
    devices: int = 0
    arch: str = ""
    taints: tuple[str, ...] = ()
    agent: Literal["ok", "missing", "old", "unknown"] = "unknown"


class ShareOfDevice(ApiAnswer, frozen=True, kw_only=True):
    """What one pod or job takes of an accelerator."""

    holder: str | None = None
    """The key of the workload; null where the viewer may not see it, or where no workload is known."""
    name: str
    requested_bytes: int
    predicted_bytes: int | None = None
    measured_bytes: int | None = None
    whole: bool = False


class DeviceRow(Row, frozen=True, kw_only=True):
    """An accelerator, with the shares of it that are taken."""

    node: str
    device: str
    model: str = ""
    """The catalog id; empty: unknown."""
    name: str = ""
    kind: str = ""
    state: str
    reason: str = ""
    memory_bytes: int | None = None
    memory_used_bytes: int | None = None
    utilisation: float | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None
    measured: float | None = None
    """When the four values before this one were measured."""
    requested_bytes: int = 0
    predicted_bytes: int | None = None
    shares: tuple[ShareOfDevice, ...] = ()


class RequestedAmounts(ApiAnswer, frozen=True, kw_only=True):
    """What a workload requests."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    accelerator_bytes: int | None = None
    """Of each accelerator."""
    whole: bool = False
    count: int = 0
    """Accelerators."""


WorkloadState = Literal["waiting", "starting", "running", "ended", "failed"]


class WorkloadRow(Row, frozen=True, kw_only=True):
    """A pod of a cluster, or a job of one machine."""

    kind: Literal["pod", "job"]
    namespace: str = ""
    """Of a job: its user."""
    name: str
    state: WorkloadState
    since: float | None = None
    node: str | None = None
    devices: tuple[str, ...] = ()
    """Keys of the accelerators that it holds."""
    model: str | None = None
    requested: RequestedAmounts = RequestedAmounts()
    priority: int = 0
    gang: str | None = None
    why: str = ""
    place: int | None = None
    """In the queue; 1 is the first that waits."""


class PipelineRow(Row, frozen=True, kw_only=True):
    """A pipeline."""

    namespace: str
    name: str
    state: str
    reason: str = ""
    stages: int
    frames_per_second: float | None = None
    latency_seconds: float | None = None
    bottleneck: str | None = None
    dropped: int | None = None


class AugmentationRow(Row, frozen=True, kw_only=True):
    """A slice of a server that a small device is lent."""

    namespace: str
    name: str
    state: str
    reason: str = ""
    device: str = ""
    unit: str = ""
    storage_bytes: int | None = None
    used_bytes: int | None = None
    device_rate: float | None = None
    """Inputs a second that the device itself does of the running job."""
    server_rate: float | None = None
    progress: float | None = None
    bound: str | None = None
    job: str | None = None
    command: str


class ProposalRow(Row, frozen=True, kw_only=True):
    """A proposal of right-sizing: what a workload requests, and what it needs."""

    namespace: str = ""
    workload: str
    what: str
    now_bytes: int
    proposed_bytes: int
    saves_bytes: int
    risk: float | None = None
    command: str


class Figure(ApiAnswer, frozen=True, kw_only=True):
    """One figure of a simulation."""

    name: str
    value: float | None
    unit: str = ""


class SimulationRow(Row, frozen=True, kw_only=True):
    """A simulated run."""

    name: str
    policy: str
    nodes: int
    jobs: int
    started: float | None = None
    figures: tuple[Figure, ...] = ()


class ModelRow(Row, frozen=True, kw_only=True):
    """A model whose latency can be predicted."""

    namespace: str = ""
    name: str
    source: str
    operators: int | None = None


ROWS: Final[dict[str, type[Row]]] = {
    "nodes": NodeRow,
    "devices": DeviceRow,
    "workloads": WorkloadRow,
    "pipelines": PipelineRow,
    "augmentations": AugmentationRow,
    "proposals": ProposalRow,
    "simulations": SimulationRow,
    "models": ModelRow,
}
"""Each table, and the type of its rows."""
