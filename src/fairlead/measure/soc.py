"""Reader: engines of a SoC (Rockchip and others): devfreq, thermal zones, shared memory."""

import re
from collections.abc import Iterator
from typing import Final

from fairlead.measure.sysfs import devfreq, devfreq_folders, memory, zones
from fairlead.measure.view import ReaderView
from fairlead.telemetry import Metric, Sample

ROCKCHIP_LOAD: Final = "/sys/kernel/debug/rknpu/load"


def read(view: ReaderView) -> Iterator[Sample]:
    """Read clock, load, temperature and the shared RAM."""
    for folder in devfreq_folders(view):
        yield from devfreq(view, folder)
        yield from view.sample(Metric.BUSY, devfreq_load(view.host.text(f"{folder}/load") or ""))
    yield from zones(view, view.acc.kind)
    if view.acc.unified_memory:
        yield from memory(view)


def read_rockchip(view: ReaderView) -> Iterator[Sample]:
    """Read the load of each core if debugfs is readable; it is more accurate than devfreq's."""
    yield from view.sample(Metric.BUSY, rknpu_load(view.host.text(ROCKCHIP_LOAD) or ""))


def devfreq_load(text: str) -> float | None:
    """Return the share in `12@1000000000Hz`; some drivers write raw counters, which are ignored."""
    match = re.fullmatch(r"([0-9]{1,3})@[0-9]+(?:Hz)?", text)
    return int(match[1]) / 100 if match and int(match[1]) <= 100 else None


def rknpu_load(text: str) -> float | None:
    """Return the mean share of the cores in `NPU load:  Core0:  12%, Core1:  3%,` or `NPU load:  7%`."""
    shares = [int(share) for share in re.findall(r"\b([0-9]{1,3})%", text)]
    return sum(shares) / len(shares) / 100 if shares and max(shares) <= 100 else None
