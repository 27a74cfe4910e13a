"""Reader: the processor."""

from collections.abc import Iterator
from typing import Final

from fairlead.host import total_ticks
from fairlead.measure.sysfs import memory
from fairlead.measure.view import ReaderView
from fairlead.telemetry import BusyCounter, Sample

STAT: Final = "/proc/stat"


def read(view: ReaderView) -> Iterator[Sample | BusyCounter]:
    """Read the busy time of all cores together, and the RAM."""
    ticks = total_ticks(view.host.read(STAT, 4096) or b"")
    if ticks is not None:
        yield BusyCounter(view.acc.id, *ticks)
    yield from memory(view)
