"""Reader: the present PCIe link of an accelerator; a downgraded link halves its throughput."""

import re
from collections.abc import Iterator
from typing import Final

from fairlead.measure.view import ReaderView
from fairlead.telemetry import Metric, Sample

_SPEED: Final = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,3})?) GT/s")


def read(view: ReaderView) -> Iterator[Sample]:
    """Read the negotiated speed and width; the maxima do not change and are in the inventory."""
    path = view.acc.path
    speed = _SPEED.match(view.host.text(f"{path}/current_link_speed") or "") if path else None
    width = view.host.number(f"{path}/current_link_width") if speed else None
    if speed and width and 0 < width <= 32:
        yield from view.sample(Metric.LINK, float(speed[1]) * 1e9 * width)
