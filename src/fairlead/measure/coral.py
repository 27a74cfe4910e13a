"""Reader: Coral on PCIe, whose driver shows temperatures only; a Coral on USB shows nothing."""

from collections.abc import Iterator
from typing import Final

from fairlead.measure.sysfs import class_folders, degrees
from fairlead.measure.view import ReaderView
from fairlead.telemetry import Metric, Sample

_LIMITS: Final = ("trip_point0", "trip_point1", "trip_point2", "hw_temp_warn1", "hw_temp_warn2")


def read(view: ReaderView) -> Iterator[Sample]:
    """Read the chip's temperature and the limits at which it slows down."""
    for folder in class_folders(view, "apex"):
        yield from view.sample(Metric.TEMPERATURE, degrees(view.host.number(f"{folder}/temp")), "chip")
        for name in _LIMITS:
            file = name if name.startswith("hw_") else f"{name}_temp"
            limit = degrees(view.host.number(f"{folder}/{file}"))
            yield from view.sample(Metric.TEMPERATURE_LIMIT, limit, name)
