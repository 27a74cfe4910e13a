"""Reader: NVIDIA GPUs through NVML."""

from collections.abc import Iterator

from fairlead.measure.view import ReaderView
from fairlead.nvml import GpuReading, Health
from fairlead.telemetry import Metric, Sample


def read(view: ReaderView) -> Iterator[Sample]:
    """Turn NVML's reading into samples; an unsupported value gives none."""
    gpu = view.gpu
    if gpu is None:
        return
    if not view.acc.mig_instances:  # its instances have the memory: a sum over both would count it twice
        yield from _memory(view, gpu)
    yield from view.sample(Metric.BUSY, _ratio(gpu.busy_percent))
    yield from view.sample(Metric.MEMORY_BUSY, _ratio(gpu.memory_busy_percent))
    yield from view.sample(Metric.POWER, gpu.power)
    yield from view.sample(Metric.ENERGY, gpu.energy_joules)
    yield from view.sample(Metric.TEMPERATURE, gpu.temperature, "gpu")
    yield from view.sample(Metric.CLOCK, gpu.sm_clock, "core")
    yield from view.sample(Metric.CLOCK, gpu.memory_clock, "memory")
    yield from _errors(view, gpu.health)
    yield from _links(view, gpu.health)


def _memory(view: ReaderView, gpu: GpuReading) -> Iterator[Sample]:
    yield from view.sample(Metric.MEMORY_TOTAL, gpu.memory_total)
    yield from view.sample(Metric.MEMORY_USED, gpu.memory_used)
    yield from view.sample(Metric.MEMORY_FREE, gpu.memory_free)
    yield from view.sample(Metric.MEMORY_RESERVED, gpu.memory_reserved)


def _errors(view: ReaderView, health: Health) -> Iterator[Sample]:
    yield from view.sample(Metric.ECC_ERRORS, health.corrected_volatile, "corrected-volatile")
    yield from view.sample(Metric.ECC_ERRORS, health.uncorrected_volatile, "uncorrected-volatile")
    yield from view.sample(Metric.ECC_ERRORS, health.corrected_aggregate, "corrected-aggregate")
    yield from view.sample(Metric.ECC_ERRORS, health.uncorrected_aggregate, "uncorrected-aggregate")
    yield from view.sample(Metric.REMAPPED_ROWS, health.rows_correctable, "correctable")
    yield from view.sample(Metric.REMAPPED_ROWS, health.rows_uncorrectable, "uncorrectable")
    yield from view.sample(Metric.ROW_REMAP, health.remap_pending, "pending")
    yield from view.sample(Metric.ROW_REMAP, health.remap_failed, "failed")
    yield from view.sample(Metric.RETIRED_PAGES, health.pages_single_bit, "single-bit")
    yield from view.sample(Metric.RETIRED_PAGES, health.pages_double_bit, "double-bit")
    yield from view.sample(Metric.RETIREMENT_PENDING, health.pages_pending)
    yield from view.sample(Metric.CLOCKS_EVENTS, health.clocks_event_reasons)
    yield from view.sample(Metric.PCIE_REPLAYS, health.pcie_replays)


def _links(view: ReaderView, health: Health) -> Iterator[Sample]:
    for link, up in health.links:
        yield from view.sample(Metric.NVLINK_UP, up, str(link))
    yield from view.sample(Metric.NVLINK_ERRORS, health.link_crc_flit, "crc-flit")
    yield from view.sample(Metric.NVLINK_ERRORS, health.link_crc_data, "crc-data")
    yield from view.sample(Metric.NVLINK_ERRORS, health.link_replay, "replay")
    yield from view.sample(Metric.NVLINK_ERRORS, health.link_recovery, "recovery")
    yield from view.sample(Metric.NVLINK_BYTES, health.link_sent, "sent")
    yield from view.sample(Metric.NVLINK_BYTES, health.link_received, "received")


def _ratio(percent: float | None) -> float | None:
    return None if percent is None else percent / 100
