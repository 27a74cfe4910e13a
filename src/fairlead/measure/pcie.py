"""Reader: the PCIe link that an accelerator has now; a downgraded one halves its throughput."""

import re
from collections.abc import Iterator
from typing import Final

from fairlead.measure.view import ReaderView
from fairlead.telemetry import Metric, Sample

_SPEED: Final = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,3})?) GT/s")


def read(view: ReaderView) -> Iterator[Sample]:
    """Read the negotiated speed and width; the best of both does not change and is in the inventory."""
    path = view.acc.path
    speed = _SPEED.match(view.host.text(f"{path}/current_link_speed") or "") if path else None
    width = view.host.number(f"{path}/current_link_width") if speed else None
    if speed and width and 0 < width <= 32:
        yield from view.sample(Metric.LINK, float(speed[1]) * 1e9 * width)
