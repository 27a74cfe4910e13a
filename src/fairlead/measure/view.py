"""What a reader is given and what it gives back."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from fairlead.host import Host
from fairlead.inventory import Accelerator
from fairlead.nvml import GpuReading
from fairlead.telemetry import BusyCounter, Metric, Sample
from fairlead.units import Seconds

FileRow = tuple[str, Metric, float]
"""A file that holds one number, what the number measures, and what it is multiplied by for the base unit."""


@dataclass(frozen=True, slots=True)
class ReaderView:
    """One accelerator of one machine at one moment."""

    host: Host
    acc: Accelerator
    now: Seconds
    """On a clock that never steps back."""
    date: Seconds
    """Since 1970, to judge the age of files."""
    gpu: GpuReading | None = None
    """What NVML measures of the accelerator, where it knows it."""

    def sample(self, metric: Metric, value: float | None, detail: str = "") -> tuple[Sample, ...]:
        """Return a sample, or nothing where there is no value."""
        return () if value is None else (Sample(self.acc.id, metric, value, detail),)

    def files(self, folder: str, rows: Iterable[FileRow], detail: str = "") -> Iterator[Sample]:
        """Read the files of a table; those that are absent give nothing."""
        for name, metric, scale in rows:
            value = self.host.number(f"{folder}/{name}")
            if value is not None:
                yield Sample(self.acc.id, metric, value * scale, detail)


Read = Callable[[ReaderView], Iterator[Sample | BusyCounter]]
"""A reader: pure, and silent about what it cannot read."""
