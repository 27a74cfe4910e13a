"""The input and the output of a reader."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from fairlead.host import Host
from fairlead.inventory import Accelerator
from fairlead.nvml import GpuReading
from fairlead.telemetry import BusyCounter, Metric, Sample
from fairlead.units import Seconds

FileRow = tuple[str, Metric, float]
"""A file with one number, the metric of the number, and the factor to the base unit."""


@dataclass(frozen=True, slots=True)
class ReaderView:
    """One accelerator of one machine at one moment."""

    host: Host
    acc: Accelerator
    now: Seconds
    """On a monotonic clock."""
    date: Seconds
    """Since 1970, for the age of files."""
    gpu: GpuReading | None = None
    """NVML's reading of the accelerator, if NVML knows it."""

    def sample(self, metric: Metric, value: float | None, detail: str = "") -> tuple[Sample, ...]:
        """Return a sample, or nothing without a value."""
        return () if value is None else (Sample(self.acc.id, metric, value, detail),)

    def files(self, folder: str, rows: Iterable[FileRow], detail: str = "") -> Iterator[Sample]:
        """Read the files of a table; an absent file gives nothing."""
        for name, metric, scale in rows:
            value = self.host.number(f"{folder}/{name}")
            if value is not None:
                yield Sample(self.acc.id, metric, value * scale, detail)


Read = Callable[[ReaderView], Iterator[Sample | BusyCounter]]
"""A reader: a pure function that skips what it cannot read."""
