"""Reader: the processor."""

import re
from collections.abc import Iterator
from typing import Final

from fairlead.measure.sysfs import memory
from fairlead.measure.view import ReaderView
from fairlead.telemetry import BusyCounter, Sample

STAT: Final = "/proc/stat"
_IDLE: Final = (3, 4)
"""The fields idle and iowait."""
_ALL: Final = 8
"""The fields up to steal; guest time, which follows, is already part of user time."""


def read(view: ReaderView) -> Iterator[Sample | BusyCounter]:
    """Read the busy time of all cores together, and the RAM."""
    ticks = total_ticks(view.host.read(STAT, 4096) or b"")
    if ticks is not None:
        yield BusyCounter(view.acc.id, *ticks)
    yield from memory(view)


def total_ticks(stat: bytes) -> tuple[int, int] | None:
    """Return the busy ticks and all ticks since boot."""
    match = re.match(rb"cpu((?: +[0-9]{1,20})+)", stat)
    fields = [int(field) for field in match[1].split()[:_ALL]] if match else []
    if len(fields) <= max(_IDLE):
        return None
    return sum(fields) - sum(fields[index] for index in _IDLE), sum(fields)
