"""DeviceHistory: the measured values of every accelerator over the last minutes, bounded in size."""

from array import array
from collections.abc import Iterable
from typing import Final

from fairlead.dashboard.answers import DeviceSeries
from fairlead.dashboard.row_types import DeviceRow, Row

_MOST: Final = 240
"""Values of each accelerator."""
_APART: Final = 2.5
"""Seconds between two values: ten minutes fit."""
_UNKNOWN: Final = float("nan")
_FIELDS: Final = ("utilisation", "memory_used_bytes", "power_watts", "temperature_celsius")


class _Series:
    """Times and values of one accelerator."""

    __slots__ = ("times", "values")

    def __init__(self) -> None:
        self.times: array[float] = array("d")
        self.values: tuple[array[float], ...] = tuple(array("d") for _ in _FIELDS)

    def add(self, at: float, row: DeviceRow) -> None:
        """Add the values of a row; the oldest ones go."""
        self.times.append(at)
        for name, values in zip(_FIELDS, self.values, strict=True):
            value = getattr(row, name)
            values.append(_UNKNOWN if value is None else float(value))
        if len(self.times) > _MOST:
            for values in (self.times, *self.values):
                del values[: len(values) - _MOST]


class DeviceHistory:
    """The last values of each accelerator, by the key of its row."""

    def __init__(self) -> None:
        self._series: dict[str, _Series] = {}

    def on_rows(self, table: str, put: Iterable[Row], drop: Iterable[str]) -> None:
        """Keep the values of a batch of rows."""
        if table != "devices":
            return
        for row in put:
            if isinstance(row, DeviceRow) and row.measured is not None:
                series = self._series.setdefault(row.key, _Series())
                if not series.times or row.measured - series.times[-1] >= _APART:
                    series.add(row.measured, row)
        for key in drop:
            self._series.pop(key, None)

    def read(self, key: str, since: float, command: str) -> DeviceSeries:
        """Return the values after a time."""
        series = self._series.get(key) or _Series()
        chosen = [at for at, time in enumerate(series.times) if time >= since]
        columns = [[_known(values[at]) for at in chosen] for values in series.values]
        times = [series.times[at] for at in chosen]
        return DeviceSeries(
            key=key,
            times=times,
            utilisation=columns[0],
            memory_used_bytes=columns[1],
            power_watts=columns[2],
            temperature_celsius=columns[3],
            command=command,
        )


def _known(value: float) -> float | None:
    return None if value != value else value  # noqa: PLR0124 - a NaN differs from itself
