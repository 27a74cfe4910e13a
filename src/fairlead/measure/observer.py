"""The observer: asks every reader, keeps the counters between two looks, throws out what cannot be true."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from fairlead.host import Host
from fairlead.inventory import Accelerator
from fairlead.measure.readers import readers_of
from fairlead.measure.view import ReaderView
from fairlead.nvml import Gpu, GpuReading
from fairlead.telemetry import BusyCounter, Metric, Sample, busy_share
from fairlead.units import Seconds

_SANE: Final = {
    Metric.BUSY: (0.0, 1.0),
    Metric.MEMORY_BUSY: (0.0, 1.0),
    Metric.TEMPERATURE: (-200.0, 1000.0),
    Metric.TEMPERATURE_LIMIT: (-200.0, 1000.0),
}
_OTHER: Final = (0.0, 1e30)
"""All else is an amount or a rate: never negative, never endless."""


class GpuSource(Protocol):
    """Whoever can measure an NVIDIA GPU: an open NVML session."""

    def reading(self, index: int) -> GpuReading | None:
        """Return what is measured of one GPU now; None when it is gone."""


class Observer:
    """Looks at accelerators again and again; what it remembers is the last counters."""

    def __init__(self) -> None:
        self._counts: dict[str, BusyCounter] = {}

    def look(
        self,
        host: Host,
        accelerators: Sequence[Accelerator],
        now: Seconds,
        date: Seconds,
        gpus: Sequence[Gpu] = (),
        nvml: GpuSource | None = None,
    ) -> tuple[Sample, ...]:
        """Measure every accelerator once; busy shares that come from counters need two looks."""
        counts: dict[str, BusyCounter] = {}
        samples: list[Sample] = []
        for acc in accelerators:
            index = nvml_index(acc, gpus) if nvml else None
            reading = nvml.reading(index) if nvml and index is not None else None
            view = ReaderView(host, acc, now, date, reading)
            samples += self._settle(counts, (item for read in readers_of(acc) for item in read(view)))
        self._counts = counts
        return tuple(drop_implausible(samples))

    def _settle(
        self, counts: dict[str, BusyCounter], found: Iterable[Sample | BusyCounter]
    ) -> Iterator[Sample]:
        """Turn counts into busy shares since the last look."""
        for item in found:
            if isinstance(item, Sample):
                yield item
                continue
            before = self._counts.get(item.accelerator)
            counts[item.accelerator] = item
            share = busy_share(before, item) if before else None
            if share is not None:
                yield Sample(item.accelerator, Metric.BUSY, share)


def drop_implausible(samples: Iterable[Sample]) -> Iterator[Sample]:
    """Drop values out of any sane range, and second values for what is already known."""
    seen: set[tuple[str, Metric, str]] = set()
    for item in samples:
        low, high = _SANE.get(item.metric, _OTHER)
        key = (item.accelerator, item.metric, item.detail)
        if key not in seen and low <= item.value <= high:
            seen.add(key)
            yield item


def nvml_index(acc: Accelerator, gpus: Sequence[Gpu]) -> int | None:
    """Return the number under which NVML knows an accelerator; a GPU in a SoC has no address there."""
    if acc.vendor != "NVIDIA":
        return None
    bus, _, address = acc.bus.partition(":")
    by_uuid = [gpu.index for gpu in gpus if gpu.uuid and gpu.uuid == acc.uuid]
    by_place = [gpu.index for gpu in gpus if gpu.address == (address if bus == "pci" else "")]
    return next(iter([*by_uuid, *by_place]), None)
