"""The machine that an agent watches: scanned anew each time, measured between, NVML kept open."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol

from fairlead import nvml
from fairlead.catalog import Catalog
from fairlead.detect import detect, nvidia
from fairlead.detect.capture import opened, read_gpus
from fairlead.host import Host
from fairlead.inventory import Inventory
from fairlead.measure import Observer
from fairlead.nvml import Gpu, Reading
from fairlead.telemetry import Sample
from fairlead.units import Seconds


class Session(Protocol):
    """An open NVML session, as far as it is needed here."""

    def gpus(self) -> list[Gpu]:
        """Return every GPU that NVML can open."""

    def reading(self, index: int) -> Reading | None:
        """Return what is measured of one GPU now; None when it is gone."""


class NvmlLine:
    """An NVML session that is kept open, and opened anew when it no longer sees every GPU."""

    def __init__(self, connect: Callable[[], AbstractContextManager[Session | None]]) -> None:
        self._connect = connect
        self._stack = ExitStack()
        self._session: Session | None = None
        self._missed: frozenset[str] = frozenset()

    def gpus(self, expected: frozenset[str]) -> list[Gpu]:
        """Return every GPU; `expected` are the addresses that the driver has."""
        if self._session is None:
            self._open()
        found = self._found()
        missed = expected - {gpu.address for gpu in found}
        if missed and missed != self._missed:
            # NVML lists what was there when it was opened. A GPU that stays away is not asked for again.
            self._open()
            found = self._found()
            missed = expected - {gpu.address for gpu in found}
        self._missed = missed
        return found

    def reading(self, index: int) -> Reading | None:
        """Return what is measured of one GPU now; None when it is gone."""
        return self._session.reading(index) if self._session else None

    def close(self) -> None:
        """End the session."""
        self._session = None
        self._stack.close()

    def _open(self) -> None:
        self.close()
        self._session = self._stack.enter_context(self._connect())

    def _found(self) -> list[Gpu]:
        return self._session.gpus() if self._session else []


class Watch:
    """A watch on one machine."""

    def __init__(self, look: Callable[[], Host], catalog: Catalog, line: NvmlLine | None) -> None:
        self.look = look
        """Return the machine as it is now; a host remembers what it has read."""
        self._catalog = catalog
        self._line = line
        self._host = look()
        self._observer = Observer()
        self._gpus: Sequence[Gpu] = ()

    def scan(self) -> Inventory:
        """Look at the whole machine."""
        self._host = self.look()
        self._gpus = self._ask()
        return detect(self._host, self._catalog, self._gpus)

    def sample(self, inventory: Inventory, now: Seconds, date: Seconds) -> tuple[Sample, ...]:
        """Measure what the last scan found."""
        return self._observer.look(self._host, inventory.accelerators, now, date, self._gpus, self._line)

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
def watched(
    place: str, catalog: Catalog, *, use_nvml: bool = True, here: bool = False, dev: bool = True
) -> Iterator[Watch]:
    """Open the machine below a root folder or in a captured tarball.

    `here`: the root shows this machine; `dev`: its device nodes are among what it shows.
    """
    with opened(place) as root:
        line = NvmlLine(nvml.session) if use_nvml else None
        try:
            yield Watch(lambda: Host(root, here=here, dev=dev), catalog, line)
        finally:
            if line:
                line.close()
