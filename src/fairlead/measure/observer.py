"""The observer: calls every reader, keeps the counters between two rounds, drops implausible values."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from fairlead.host import Host
from fairlead.inventory import Accelerator
from fairlead.measure.readers import readers_of
from fairlead.measure.view import ReaderView
from fairlead.nvml import Gpu, GpuReading
from fairlead.telemetry import BusyCounter, Metric, Sample, busy_share
from fairlead.units import Seconds

_PLAUSIBLE: Final = {
    Metric.BUSY: (0.0, 1.0),
    Metric.MEMORY_BUSY: (0.0, 1.0),
    Metric.TEMPERATURE: (-200.0, 1000.0),
    Metric.TEMPERATURE_LIMIT: (-200.0, 1000.0),
}
_PLAUSIBLE_DEFAULT: Final = (0.0, 1e30)
"""Every other value is an amount or a rate: not negative, and finite."""


class GpuSource(Protocol):
    """A source of measurements of NVIDIA GPUs: an open NVML session."""

    def reading(self, index: int) -> GpuReading | None:
        """Return the present measurements of one GPU; None if it is gone."""


class Observer:
    """Measures accelerators repeatedly; its state is the last counters."""

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
        """Measure every accelerator once; busy shares from counters need two calls."""
        counts: dict[str, BusyCounter] = {}
        samples: list[Sample] = []
        for acc in accelerators:
            index = nvml_index(acc, gpus) if nvml else None
            reading = nvml.reading(index) if nvml and index is not None else None
            view = ReaderView(host, acc, now, date, reading)
            samples += self._busy_samples(counts, (item for read in readers_of(acc) for item in read(view)))
        self._counts = counts
        return tuple(drop_implausible(samples))

    def _busy_samples(
        self, counts: dict[str, BusyCounter], readings: Iterable[Sample | BusyCounter]
    ) -> Iterator[Sample]:
        """Turn counters into busy shares since the last call; pass samples through."""
        for item in readings:
            if isinstance(item, Sample):
                yield item
                continue
            before = self._counts.get(item.accelerator)
            counts[item.accelerator] = item
            share = busy_share(before, item) if before else None
            if share is not None:
                yield Sample(item.accelerator, Metric.BUSY, share)


def drop_implausible(samples: Iterable[Sample]) -> Iterator[Sample]:
    """Drop values outside the plausible range, and second values of the same metric."""
    seen: set[tuple[str, Metric, str]] = set()
    for item in samples:
        low, high = _PLAUSIBLE.get(item.metric, _PLAUSIBLE_DEFAULT)
        key = (item.accelerator, item.metric, item.detail)
        if key not in seen and low <= item.value <= high:
            seen.add(key)
            yield item


def nvml_index(acc: Accelerator, gpus: Sequence[Gpu]) -> int | None:
    """Return the number by which NVML reads an accelerator: a GPU's index, or that of a MIG instance.

    A GPU in a SoC has no address in NVML.
    """
    if acc.vendor != "NVIDIA":
        return None
    if acc.mig:
        ids = (acc.mig.gpu_instance, acc.mig.compute_instance)
        gpu = _gpu_of(acc.mig.parent_uuid, acc.bus, gpus)
        instances = gpu.instances if gpu else ()
        return next(
            (each.index for each in instances if (each.gpu_instance, each.compute_instance) == ids), None
        )
    gpu = _gpu_of(acc.uuid, acc.bus, gpus)
    return None if gpu is None else gpu.index


def _gpu_of(uuid: str | None, place: str, gpus: Sequence[Gpu]) -> Gpu | None:
    bus, _, address = place.partition(":")
    by_uuid = [gpu for gpu in gpus if gpu.uuid and gpu.uuid == uuid]
    by_address = [gpu for gpu in gpus if gpu.address == (address if bus == "pci" else "")]
    return next(iter([*by_uuid, *by_address]), None)
