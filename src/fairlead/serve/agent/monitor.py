"""The machine that an agent monitors: scanned now and then, sampled in between, with NVML kept open."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Protocol

from fairlead import nvml
from fairlead.catalog import Catalog
from fairlead.detect import detect, nvidia
from fairlead.detect.capture import open_capture, read_gpus
from fairlead.faults import XidPolicy
from fairlead.host import Host
from fairlead.inventory import Inventory, Machine
from fairlead.measure import GpuHealth, Observer, nvml_index
from fairlead.nvml import Gpu, GpuReading, Health
from fairlead.telemetry import Sample
from fairlead.units import Seconds


class NvmlSession(Protocol):
    """The part of an open NVML session that the monitor uses."""

    def gpus(self, expected: Collection[str] = ()) -> list[Gpu]:
        """Return every GPU, also lost ones among the `expected` addresses that the driver has."""

    def reading(self, index: int) -> GpuReading | None:
        """Return the current measurements of one GPU; None when it is gone."""

    def xids(self) -> dict[int, list[int]]:
        """Return the XIDs since the last call, of every GPU that can report any."""


class NvmlReconnector:
    """An NVML session that stays open, and is reopened when it no longer sees every GPU."""

    def __init__(self, connect: Callable[[], AbstractContextManager[NvmlSession | None]]) -> None:
        self._connect = connect
        self._stack = ExitStack()
        self._session: NvmlSession | None = None
        self._missing: frozenset[str] = frozenset()
        self.health: dict[int, Health] = {}
        """The health of each GPU at its last sample, by NVML index."""

    def gpus(self, expected: frozenset[str]) -> list[Gpu]:
        """Return every GPU; `expected` are the addresses that the driver has."""
        if self._session is None:
            self._open()

        gpus = self._list(expected)
        missing = expected - {gpu.address for gpu in gpus}
        if missing and missing != self._missing:
            # NVML lists the GPUs that were present when it was opened. A GPU that stays absent causes no
            # second reopening.
            self._open()
            gpus = self._list(expected)
            missing = expected - {gpu.address for gpu in gpus}
        self._missing = missing
        return gpus

    def reading(self, index: int) -> GpuReading | None:
        """Return the current measurements of one GPU; None when it is gone."""
        reading = self._session.reading(index) if self._session else None
        if reading is not None:
            self.health[index] = reading.health
        return reading

    def xids(self) -> dict[int, list[int]]:
        """Return the XIDs since the last call, of every GPU that can report any."""
        return self._session.xids() if self._session else {}

    def close(self) -> None:
        """End the session."""
        self._session = None
        self._stack.close()

    def _open(self) -> None:
        self.close()
        self.health = {}
        self._session = self._stack.enter_context(self._connect())

    def _list(self, expected: frozenset[str]) -> list[Gpu]:
        return self._session.gpus(expected) if self._session else []


class MachineMonitor:
    """Monitors one machine."""

    def __init__(
        self,
        look: Callable[[], Host],
        catalog: Catalog,
        session: NvmlReconnector | None,
        xids: XidPolicy | None = None,
    ) -> None:
        self.look = look
        """Return the machine as it is now; a `Host` caches what it has read."""
        self._catalog = catalog
        self._nvml = session
        self._host = look()
        self._observer = Observer()
        self._gpus: Sequence[Gpu] = ()
        self._inventory = Inventory(Machine())
        self._health = GpuHealth(xids or XidPolicy())

    def scan(self) -> Inventory:
        """Scan the whole machine."""
        self._record_health()  # a reopened session has lost the XIDs of the last one
        self._host = self.look()
        self._gpus = self._list_gpus()
        self._inventory = detect(self._host, self._catalog, self._gpus)
        self._health.forget_unbound(self._inventory.accelerators)
        return self.inventory_with_health()

    def sample(self, inventory: Inventory, now: Seconds, date: Seconds) -> tuple[Sample, ...]:
        """Measure the accelerators that the last scan found."""
        measured = self._observer.look(self._host, inventory.accelerators, now, date, self._gpus, self._nvml)
        self._record_health()
        return (*measured, *self._health.samples())

    def inventory_with_health(self) -> Inventory:
        """Return the inventory of the last scan, with the health that the last sample showed."""
        accelerators = tuple(self._health.with_faults(acc) for acc in self._inventory.accelerators)
        return replace(self._inventory, accelerators=accelerators)

    def _record_health(self) -> None:
        """Record what NVML has reported since the last call about the GPUs of the last scan."""
        if self._nvml is None or not self._gpus:
            return
        xids, health = self._nvml.xids(), self._nvml.health
        for acc in self._inventory.accelerators:
            index = nvml_index(acc, self._gpus)
            if index is not None:
                gpu = nvml.gpu_index(index)
                self._health.record(acc.id, health.get(gpu), nvml.xids_of(index, xids))

    def _list_gpus(self) -> list[Gpu]:
        """Query NVML only for this machine and only where its driver is loaded: NVML would load it."""
        if self._nvml is None:
            return []
        if not self._host.here:
            return read_gpus(self._host)
        if not nvidia.is_driver_loaded(self._host):
            return []
        return self._nvml.gpus(frozenset(self._host.names(nvidia.GPUS)))


@contextmanager
def open_monitor(
    place: str,
    catalog: Catalog,
    *,
    use_nvml: bool = True,
    here: bool = False,
    dev: bool = True,
    xids: XidPolicy | None = None,
) -> Iterator[MachineMonitor]:
    """Monitor the machine below a root folder or in a captured tarball.

    `here`: the root shows this machine; `dev`: its device nodes are among what it shows; `xids`: which XIDs
    leave a GPU healthy.
    """
    with open_capture(place) as root:
        session = NvmlReconnector(nvml.open_session) if use_nvml else None
        try:
            yield MachineMonitor(lambda: Host(root, here=here, dev=dev), catalog, session, xids)
        finally:
            if session:
                session.close()
