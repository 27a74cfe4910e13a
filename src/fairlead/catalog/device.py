"""A row of the catalog: how to recognise a device, and its figures."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fairlead.units import BitsPerSecond, Bytes, BytesPerSecond, Hertz, Ops, Watts

KINDS: Final = ("cpu", "gpu", "tpu", "npu", "vpu", "dsp", "fpga")
PRECISIONS: Final = ("int4", "int8", "fp4", "fp8", "fp16", "bf16", "tf32", "fp32", "fp64")


@dataclass(frozen=True, slots=True)
class PciKey:
    """A PCI id, or a range of them, narrowed by revision and subsystem if the chip needs it."""

    vendor: int
    first: int
    last: int
    revision: int | None = None
    subsystem: tuple[int, int] | None = None

    @property
    def exact(self) -> bool:
        """Whether the key names one device id rather than a range."""
        return self.first == self.last

    @property
    def rank(self) -> int:
        """How specific the key is: of the keys that match a device, the highest rank wins."""
        return self.exact + (self.revision is not None) + 2 * (self.subsystem is not None)

    def __str__(self) -> str:
        text = f"{self.vendor:04x}:{self.first:04x}" + ("" if self.exact else f"-{self.last:04x}")
        text += "" if self.revision is None else f" rev {self.revision:02x}"
        return text + (f" sub {self.subsystem[0]:04x}:{self.subsystem[1]:04x}" if self.subsystem else "")


@dataclass(frozen=True, slots=True)
class NodeKey:
    """The `compatible` of a device-tree node, narrowed to one node name if the entry is a common one."""

    compatible: str
    name: str | None = None

    def __str__(self) -> str:
        return f"{self.compatible}@{self.name}" if self.name else self.compatible


@dataclass(frozen=True, slots=True)
class CpuKey:
    """An architecture and the /proc/cpuinfo flags that a CPU must have."""

    arch: str
    flags: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.arch} {' '.join(sorted(self.flags))}".strip()


@dataclass(frozen=True, slots=True)
class DeviceMatch:
    """The keys by which a device is recognised; one matching key is enough."""

    pci: tuple[PciKey, ...] = ()
    usb: tuple[str, ...] = ()
    module: tuple[str, ...] = ()
    board: tuple[str, ...] = ()
    soc: tuple[str, ...] = ()
    node: tuple[NodeKey, ...] = ()
    platform: tuple[str, ...] = ()
    """Names of the platform device, as globs, for trees that do not describe it."""
    cpu: CpuKey | None = None
    processor: tuple[str, ...] = ()
    """Globs of the processor that contains the device, by its name or as `GenuineIntel 6/170`."""
    nvml: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()
    """Other devices that match the same keys."""
    soc_certain: bool = True
    """Every chip of the SoC has the device; otherwise only some SKUs do."""
    needs_node: bool = False
    """The SoC alone is no evidence: a node of the device tree must name the device."""


@dataclass(frozen=True, slots=True)
class Driver:
    """How a working driver appears in sysfs and /dev."""

    name: str
    """As the `driver` link in sysfs spells it; empty for a driver in user space."""
    sysfs_class: str | None = None
    nodes: tuple[str, ...] = ()
    userspace: bool = False
    hint: str = ""
    """What to do if the driver is missing."""


@dataclass(frozen=True, slots=True)
class HostLink:
    """The link that a device without memory of its own needs to reach its peak."""

    bus: str
    full: BitsPerSecond


@dataclass(frozen=True, slots=True)
class SubEngine:
    """A unit inside the device that runs work of its own."""

    name: str
    kind: str
    count: int
    node: tuple[NodeKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Variant:
    """A SKU that shares the device's id: only the fields that differ."""

    name: str
    module: tuple[str, ...] = ()
    board: tuple[str, ...] = ()
    pci: tuple[PciKey, ...] = ()
    nvml: tuple[str, ...] = ()
    memory: Bytes | None = None
    peak: Mapping[str, Ops] = field(default_factory=dict)
    power: Watts | None = None
    engines: int | None = None
    clock: Hertz | None = None
    bandwidth: BytesPerSecond | None = None
    mode: bool = False
    """A power mode of the same board: only its own key or its watts select it, never memory alone."""


@dataclass(frozen=True, slots=True)
class CatalogDevice:
    """One row of the catalog."""

    id: str
    name: str
    vendor: str
    kind: str
    family: str
    match: DeviceMatch
    aliases: tuple[str, ...] = ()
    shareable: bool = False
    generic: bool = False
    """The row describes an architecture or a SoC rather than a product."""
    note: str = ""
    unverified: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    peak: Mapping[str, Ops] = field(default_factory=dict)
    per_core_cycle: Mapping[str, float] = field(default_factory=dict)
    """For CPUs: operations per core and clock cycle."""
    clock: Hertz | None = None
    memory: Bytes | None = None
    bandwidth: BytesPerSecond | None = None
    unified: bool = False
    power: Watts | None = None
    power_min: Watts | None = None
    link: HostLink | None = None
    drivers: tuple[Driver, ...] = ()
    engines: tuple[SubEngine, ...] = ()
    variants: tuple[Variant, ...] = ()
    origin: str = ""
    """The file that the row was read from."""


@dataclass(frozen=True, slots=True)
class UnlistedShape:
    """A rule that decides whether an unlisted device looks like an accelerator; a decoy rule says no."""

    pci: PciKey | None
    """None: any vendor."""
    classes: tuple[str, ...]
    """PCI classes, four hexadecimal digits; empty: any."""
    drivers: tuple[str, ...]
    usb: str | None
    """A USB vendor."""
    node: tuple[str, ...]
    """Globs of a device-tree node's words; one with a comma matches a whole `compatible` entry."""
    says: str
    decoy: bool
