"""What NVML reports of one GPU: its identity, its present measurements, its health, and its processes."""

from collections.abc import Mapping
from dataclasses import dataclass

from fairlead.faults import fault
from fairlead.units import Bytes, Celsius, Hertz, Watts


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A MIG device: a compute instance inside a GPU instance, which CUDA programs use like a GPU."""

    index: int
    """The number by which a session reads it, as it reads a GPU by its index; never that of a GPU."""
    uuid: str
    name: str
    """`NVIDIA H200 MIG 1g.18gb`."""
    gpu_instance: int
    compute_instance: int
    memory: Bytes | None
    multiprocessors: int | None = None
    slices: int | None = None
    """Compute slices."""

    @property
    def profile(self) -> str:
        """Its profile: `1g.18gb`, `1c.3g.71gb`, `1g.18gb+me`; empty where the name has none."""
        return self.name.rpartition("MIG ")[2] if "MIG " in self.name else ""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as NVML knows it."""

    index: int
    """NVML's index; -1 for a GPU that NVML can no longer open."""
    address: str
    """The PCI address as sysfs spells it; empty if the GPU has none."""
    name: str
    uuid: str
    memory: Bytes | None
    power_limit: Watts | None
    driver_version: str
    ecc_errors: int | None
    """Uncorrected errors since the driver was loaded."""
    remap_failed: bool | None = None
    """Whether a row of its memory could not be remapped."""
    lost: bool = False
    """Whether NVML reports that it is lost or must be reset."""
    mig_enabled: bool = False
    """Whether MIG is enabled: CUDA programs can then use its instances only."""
    instances: tuple[MigInstance, ...] = ()
    multiprocessors: int | None = None
    """Of the whole GPU; read only where MIG is enabled."""
    most_instances: int | None = None
    """How many instances the GPU can have; read only where MIG is enabled."""
    prohibited: bool = False
    """Whether its compute mode forbids every CUDA program."""

    @property
    def fault(self) -> str:
        """Why the GPU must not be allocated; empty without a fault."""
        return fault(lost=self.lost, uncorrected=self.ecc_errors, remap_failed=self.remap_failed)

    def compute_share(self, instance: MigInstance) -> float | None:
        """Return the share of the GPU's multiprocessors that an instance has, else of its compute slices."""
        for part, whole in (
            (instance.multiprocessors, self.multiprocessors),
            (instance.slices, self.most_instances),
        ):
            if part and whole:
                return min(1.0, part / whole)
        return None


@dataclass(frozen=True, slots=True)
class Health:
    """The health of a GPU; None is a value that NVML does not support."""

    lost: bool = False
    """Whether NVML reports that it is lost or must be reset."""
    corrected_volatile: int | None = None
    """Volatile counters start with the driver, aggregate ones with the GPU."""
    uncorrected_volatile: int | None = None
    corrected_aggregate: int | None = None
    uncorrected_aggregate: int | None = None
    rows_correctable: int | None = None
    rows_uncorrectable: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    pages_single_bit: int | None = None
    pages_double_bit: int | None = None
    pages_pending: bool | None = None
    clocks_event_reasons: int | None = None
    """Why the clocks are below their maximum: a mask."""
    pcie_replays: int | None = None
    links: tuple[tuple[int, bool], ...] = ()
    """Each NVLink by its number, and whether it is active."""
    link_crc_flit: int | None = None
    """NVLink errors are summed over all links."""
    link_crc_data: int | None = None
    link_replay: int | None = None
    link_recovery: int | None = None
    link_sent: Bytes | None = None
    link_received: Bytes | None = None

    @property
    def fault(self) -> str:
        """Why the GPU must not be allocated; empty without a fault."""
        return fault(lost=self.lost, uncorrected=self.uncorrected_volatile, remap_failed=self.remap_failed)


@dataclass(frozen=True, slots=True)
class GpuReading:
    """The present measurements of one GPU."""

    memory_used: Bytes | None
    memory_free: Bytes | None
    memory_total: Bytes | None
    busy_percent: float | None
    memory_busy_percent: float | None
    power: Watts | None
    energy_joules: float | None
    temperature: Celsius | None
    sm_clock: Hertz | None
    memory_clock: Hertz | None
    memory_reserved: Bytes | None = None
    """The memory that the driver reserves."""
    health: Health = Health()


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process on a GPU."""

    pid: int
    """In the pid namespace of the reader."""
    memory: Bytes | None
    """None: the driver does not report it."""


@dataclass(frozen=True, slots=True)
class ProcessBusy:
    """How busy processes kept a GPU since an earlier reading."""

    at: int
    """The time of the newest sample by NVML's clock; pass it to the next reading."""
    shares: Mapping[int, float]
    """By pid, the share of time with work on the GPU, 0 to 1; a pid that is absent was idle."""
