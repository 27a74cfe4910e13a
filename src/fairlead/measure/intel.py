"""Reader: Intel NPUs, whose driver counts the busy time."""

from collections.abc import Iterator
from typing import Final

from fairlead.measure.view import ReaderView
from fairlead.telemetry import BusyCounter, Metric, Sample

_FILES: Final = (
    ("npu_current_frequency_mhz", Metric.CLOCK, 1e6),
    ("npu_max_frequency_mhz", Metric.CLOCK_MAX, 1e6),
)
_MEMORY: Final = (("npu_memory_utilization", Metric.MEMORY_USED, 1.0),)
"""The file is named a utilisation, but holds an amount in bytes."""
_BUSY: Final = (("npu_busy_time_us", 1e-6), ("power/runtime_active_time", 1e-3))
"""The counter, and its substitute on kernels before 6.11: the time for which the device was awake."""


def read(view: ReaderView) -> Iterator[Sample | BusyCounter]:
    """Read the busy time, the clock and the memory in use."""
    path = view.acc.path
    yield from view.files(path, _FILES, "core")
    yield from view.files(path, _MEMORY)
    for name, scale in _BUSY:
        spent = view.host.number(f"{path}/{name}")
        if spent is not None:
            yield BusyCounter(view.acc.id, spent * scale, view.now)
            return
