"""The inventory of a machine: its accelerators, their state, and the evidence for each of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairlead.compat import StrEnum
from fairlead.units import BitsPerSecond, Bytes, Ops, Watts


class State(StrEnum):
    """How ready an accelerator is for work; each state includes the ones before it."""

    PRESENT = "present"
    DRIVER_BOUND = "driver-bound"
    USABLE = "usable"
    HEALTHY = "healthy"

    @property
    def allocatable(self) -> bool:
        """Whether an accelerator in this state may be allocated."""
        return self in (State.USABLE, State.HEALTHY)


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact that was read, and what it says about a device."""

    source: str
    """The witness: dt, pci, usb, class, driver, node, nvml or proc."""
    path: str
    """Where the fact was read."""
    says: str
    """What the fact says, for people."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {"source": self.source, "path": self.path, "says": self.says}


@dataclass(frozen=True, slots=True)
class Link:
    """The link between the accelerator and its host: the negotiated rate and the maximum."""

    rate: BitsPerSecond
    best: BitsPerSecond

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {"bits_per_second": round(self.rate), "best_bits_per_second": round(self.best)}


@dataclass(frozen=True, slots=True)
class Engine:
    """A unit inside an accelerator that runs work of its own (a Jetson's DLA)."""

    name: str
    kind: str
    state: State

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {"name": self.name, "kind": self.kind, "state": self.state.value}


@dataclass(frozen=True, slots=True)
class MigPartition:
    """What makes an accelerator a MIG instance: the part that it has of a GPU, and its two ids there."""

    profile: str
    """`1g.18gb`, `1c.3g.71gb`, `1g.18gb+me`."""
    gpu_instance: int
    compute_instance: int
    parent: str
    """The id of the GPU."""
    parent_uuid: str
    compute_share: float | None = None
    """Of the GPU's multiprocessors, 0 to 1; None: unknown."""
    memory_share: float | None = None
    """Of the GPU's memory, 0 to 1; None: unknown."""
    nodes: tuple[str, ...] = ()
    """The device nodes that give access to the instance, beside the GPU's own."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {
            "profile": self.profile,
            "gpu_instance": self.gpu_instance,
            "compute_instance": self.compute_instance,
            "parent": self.parent,
            "parent_uuid": self.parent_uuid,
            "compute_share": _rounded(self.compute_share),
            "memory_share": _rounded(self.memory_share),
            "nodes": list(self.nodes),
        }


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One physical accelerator, or one MIG instance of a GPU."""

    id: str
    """Stable across re-enumeration and driver changes; unique on the machine; a DNS label."""
    model: str | None
    """The catalog id, or None if more than one candidate fits the evidence."""
    name: str
    vendor: str
    kind: str
    state: State
    reason: str
    """Why the state is not a better one; empty when healthy."""
    confidence: float
    candidates: tuple[str, ...]
    """Every catalog id that fits the evidence, likeliest first."""
    bus: str
    """Its address: `pci:0000:01:00.0`, `usb:1-1.2`, `platform:17000000.gpu`, `cpu:0`."""
    memory: Bytes | None = None
    unified_memory: bool = False
    """The memory is the host's RAM: do not add the two."""
    peak: Mapping[str, Ops] = field(default_factory=dict)
    effective: Mapping[str, Ops] = field(default_factory=dict)
    """The peak under the present clock cap and link."""
    power: Watts | None = None
    driver: str | None = None
    driver_version: str | None = None
    product: str | None = None
    """The name that the driver gives it."""
    uuid: str | None = None
    link: Link | None = None
    engines: tuple[Engine, ...] = ()
    shareable: bool = False
    path: str = ""
    """The device's own folder in sysfs; empty if it has none."""
    node: str | None = None
    """The device node through which work reaches it."""
    evidence: tuple[Evidence, ...] = ()
    mig: MigPartition | None = None
    """Set for a MIG instance."""
    mig_instances: int = 0
    """The number of MIG instances that a GPU is split into. They stand beside it in the inventory; the GPU
    itself can only be measured."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {
            "id": self.id,
            "model": self.model,
            "name": self.name,
            "vendor": self.vendor,
            "kind": self.kind,
            "state": self.state.value,
            "reason": self.reason,
            "confidence": round(self.confidence, 2),
            "candidates": list(self.candidates),
            "memory_bytes": self.memory,
            "unified_memory": self.unified_memory,
            "peak_ops": {precision: round(rate) for precision, rate in self.peak.items()},
            "effective_ops": {precision: round(rate) for precision, rate in self.effective.items()},
            "power_w": self.power,
            "bus": self.bus,
            "link": self.link.to_json() if self.link else None,
            "driver": self.driver,
            "driver_version": self.driver_version,
            "product": self.product,
            "uuid": self.uuid,
            "node": self.node,
            "engines": [engine.to_json() for engine in self.engines],
            "shareable": self.shareable,
            "mig": self.mig.to_json() if self.mig else None,
            "mig_instances": self.mig_instances,
            "evidence": [item.to_json() for item in self.evidence],
        }


@dataclass(frozen=True, slots=True)
class Unknown:
    """A device shaped like an accelerator that the catalog does not know."""

    bus: str
    ids: str
    """Its numbers, as a catalog key would spell them: `1e60:9999`."""
    driver: str | None
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {"bus": self.bus, "ids": self.ids, "driver": self.driver, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Machine:
    """The host around the accelerators."""

    arch: str | None = None
    board: str | None = None
    """The board's own name for itself; free text that may be wrong."""
    compatible: tuple[str, ...] = ()
    """The device tree's root `compatible`, most specific first."""
    cpus: int = 0
    memory: Bytes | None = None
    release: str | None = None
    """The vendor's board support release, such as an L4T release."""
    problems: tuple[str, ...] = ()
    """What could not be read, and why."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {
            "arch": self.arch,
            "board": self.board,
            "compatible": list(self.compatible),
            "cpus": self.cpus,
            "memory_bytes": self.memory,
            "release": self.release,
            "problems": list(self.problems),
        }


@dataclass(frozen=True, slots=True)
class Inventory:
    """The result of one scan of a machine."""

    machine: Machine
    accelerators: tuple[Accelerator, ...] = ()
    unknown: tuple[Unknown, ...] = ()

    def total_memory(self) -> Bytes:
        """Return all memory that models can use, the host's RAM counted once."""
        own = sum(
            acc.memory or 0 for acc in self.accelerators if not acc.unified_memory and not acc.mig_instances
        )
        return Bytes(own + (self.machine.memory or 0))

    def to_json(self) -> dict[str, Any]:
        """Return the document of the contract."""
        return {
            "host": self.machine.to_json(),
            "accelerators": [acc.to_json() for acc in self.accelerators],
            "unknown": [item.to_json() for item in self.unknown],
        }
