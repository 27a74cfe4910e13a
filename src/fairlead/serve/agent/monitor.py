"""The machine that an agent watches: scanned as a whole now and then, measured between, NVML kept open."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Protocol

from fairlead import nvml
from fairlead.catalog import Catalog
from fairlead.detect import detect, nvidia
from fairlead.detect.capture import opened, read_gpus
from fairlead.faults import XidPolicy
from fairlead.host import Host
from fairlead.inventory import Inventory, Machine
from fairlead.measure import GpuHealth, Observer, index_of
from fairlead.nvml import Gpu, GpuReading, Health
from fairlead.telemetry import Sample
from fairlead.units import Seconds


class NvmlSession(Protocol):
    """An open NVML session, as far as it is needed here."""

    def gpus(self, expected: Collection[str] = ()) -> list[Gpu]:
        """Return every GPU; of `expected`, the addresses that the driver has, also those that are lost."""

    def reading(self, index: int) -> GpuReading | None:
        """Return what is measured of one GPU now; None when it is gone."""

    def xids(self) -> dict[int, list[int]]:
        """Return the XIDs since this was last asked, of every GPU that can report any."""


class NvmlReconnector:
    """An NVML session that is kept open, and opened anew when it no longer sees every GPU."""

    def __init__(self, connect: Callable[[], AbstractContextManager[NvmlSession | None]]) -> None:
        self._connect = connect
        self._stack = ExitStack()
        self._session: NvmlSession | None = None
        self._missed: frozenset[str] = frozenset()
        self.health: dict[int, Health] = {}
        """How well each GPU was when it was last measured, by NVML's number."""

    def gpus(self, expected: frozenset[str]) -> list[Gpu]:
        """Return every GPU; `expected` are the addresses that the driver has."""
        if self._session is None:
            self._open()
        found = self._found(expected)
        missed = expected - {gpu.address for gpu in found}
        if missed and missed != self._missed:
            # NVML lists what was there when it was opened. A GPU that stays away is not asked for again.
            self._open()
            found = self._found(expected)
            missed = expected - {gpu.address for gpu in found}
        self._missed = missed
        return found

    def reading(self, index: int) -> GpuReading | None:
        """Return what is measured of one GPU now; None when it is gone."""
        reading = self._session.reading(index) if self._session else None
        if reading is not None:
            self.health[index] = reading.health
        return reading

    def xids(self) -> dict[int, list[int]]:
        """Return the XIDs since this was last asked, of every GPU that can report any."""
        return self._session.xids() if self._session else {}

    def close(self) -> None:
        """End the session."""
        self._session = None
        self._stack.close()

    def _open(self) -> None:
        self.close()
        self.health = {}
        self._session = self._stack.enter_context(self._connect())

    def _found(self, expected: frozenset[str]) -> list[Gpu]:
        return self._session.gpus(expected) if self._session else []


class MachineMonitor:
    """A watch on one machine."""

    def __init__(
        self,
        look: Callable[[], Host],
        catalog: Catalog,
        line: NvmlReconnector | None,
        xids: XidPolicy | None = None,
    ) -> None:
        self.look = look
        """Return the machine as it is now; a host remembers what it has read."""
        self._catalog = catalog
        self._line = line
        self._host = look()
        self._observer = Observer()
        self._gpus: Sequence[Gpu] = ()
        self._found = Inventory(Machine())
        self._health = GpuHealth(xids or XidPolicy())

    def scan(self) -> Inventory:
        """Look at the whole machine."""
        self._hear()  # a session that is opened again has forgotten what the last one was told
        self._host = self.look()
        self._gpus = self._ask()
        self._found = detect(self._host, self._catalog, self._gpus)
        self._health.keep(self._found.accelerators)
        return self.inventory_with_health()

    def sample(self, inventory: Inventory, now: Seconds, date: Seconds) -> tuple[Sample, ...]:
        """Measure what the last scan found."""
        measured = self._observer.look(self._host, inventory.accelerators, now, date, self._gpus, self._line)
        self._hear()
        return (*measured, *self._health.samples())

    def inventory_with_health(self) -> Inventory:
        """Return what the last scan found, with the health that the last sample showed."""
        accelerators = tuple(self._health.judge(acc) for acc in self._found.accelerators)
        return replace(self._found, accelerators=accelerators)

    def _hear(self) -> None:
        """Take what NVML said since last time of the GPUs that the last scan found."""
        if self._line is None or not self._gpus:
            return
        xids, health = self._line.xids(), self._line.health
        for acc in self._found.accelerators:
            index = index_of(acc, self._gpus)
            if index is not None:
                self._health.note(acc.id, health.get(index), xids.get(index))

    def _ask(self) -> list[Gpu]:
        """Ask NVML about this very machine only, and only a driver that is there: NVML would load it."""
        if self._line is None:
            return []
        if not self._host.here:
            return read_gpus(self._host)
        if not nvidia.driver_is_there(self._host):
            return []
        return self._line.gpus(frozenset(self._host.names(nvidia.GPUS)))


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
    """Open the machine below a root folder or in a captured tarball.

    `here`: the root shows this machine; `dev`: its device nodes are among what it shows; `xids`: which XIDs
    leave a GPU healthy.
    """
    with opened(place) as root:
        line = NvmlReconnector(nvml.session) if use_nvml else None
        try:
            yield MachineMonitor(lambda: Host(root, here=here, dev=dev), catalog, line, xids)
        finally:
            if line:
                line.close()
