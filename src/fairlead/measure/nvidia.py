"""Reader: NVIDIA GPUs through NVML."""

from collections.abc import Iterator

from fairlead.measure.view import View
from fairlead.telemetry import Metric, Sample


def read(view: View) -> Iterator[Sample]:
    """Turn what NVML answered into samples; what it does not support gives nothing."""
    gpu = view.gpu
    if gpu is None:
        return
    yield from view.sample(Metric.MEMORY_TOTAL, gpu.memory_total)
    yield from view.sample(Metric.MEMORY_USED, gpu.memory_used)
    yield from view.sample(Metric.MEMORY_FREE, gpu.memory_free)
    yield from view.sample(Metric.BUSY, _ratio(gpu.busy_percent))
    yield from view.sample(Metric.MEMORY_BUSY, _ratio(gpu.memory_busy_percent))
    yield from view.sample(Metric.POWER, gpu.power)
    yield from view.sample(Metric.ENERGY, gpu.energy_joules)
    yield from view.sample(Metric.TEMPERATURE, gpu.temperature, "gpu")
    yield from view.sample(Metric.CLOCK, gpu.sm_clock, "core")
    yield from view.sample(Metric.CLOCK, gpu.memory_clock, "memory")


def _ratio(percent: float | None) -> float | None:
    return None if percent is None else percent / 100
