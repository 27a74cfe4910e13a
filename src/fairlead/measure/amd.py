"""Reader: AMD GPUs through amdgpu's files; power, temperatures and clocks come from its hwmon chip."""

from collections.abc import Iterator
from typing import Final

from fairlead.measure.sysfs import is_suspended
from fairlead.measure.view import ReaderView
from fairlead.telemetry import Metric, Sample

_FILES: Final = (
    ("gpu_busy_percent", Metric.BUSY, 0.01),
    ("mem_busy_percent", Metric.MEMORY_BUSY, 0.01),
    ("mem_info_vram_total", Metric.MEMORY_TOTAL, 1.0),
    ("mem_info_vram_used", Metric.MEMORY_USED, 1.0),
)


def read(view: ReaderView) -> Iterator[Sample]:
    """Read load and memory."""
    if is_suspended(view):
        yield from view.sample(Metric.BUSY, 0.0)
        return
    samples = list(view.files(view.acc.path, _FILES))
    yield from samples
    amounts = {item.metric: item.value for item in samples}
    if Metric.MEMORY_TOTAL in amounts and Metric.MEMORY_USED in amounts:
        free = amounts[Metric.MEMORY_TOTAL] - amounts[Metric.MEMORY_USED]
        yield from view.sample(Metric.MEMORY_FREE, max(0.0, free))
