"""Simulated telemetry: the recent use of each accelerator, for policies that place by measured use."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fairlead.simulate.play.accelerator import SimulatedAccelerator
from fairlead.units import Bytes

KEPT: Final = 600.0
"""Seconds of history that are kept."""


@dataclass(frozen=True, slots=True)
class UsageReading:
    """One reading of an accelerator."""

    at: float
    memory: Bytes
    """Memory that jobs hold."""
    busy: float


class SimulatedTelemetry:
    """Readings of each accelerator, by node and id; a reading holds until the next one."""

    def __init__(self) -> None:
        self._changes: dict[tuple[str, str], list[UsageReading]] = {}

    def record(self, now: float, accelerator: SimulatedAccelerator) -> None:
        """Record the state of an accelerator from now on."""
        changes = self._changes.setdefault((accelerator.node, accelerator.state.id), [])
        if changes and changes[-1].at == now:
            changes.pop()
        changes.append(UsageReading(now, Bytes(accelerator.memory), accelerator.busy))
        if len(changes) > 64 and changes[len(changes) // 2].at < now - KEPT:
            del changes[: len(changes) // 2]

    def window(self, node: str, device: str, times: Iterable[float]) -> list[UsageReading]:
        """Return the readings at these times; none from before the first job."""
        changes = self._changes.get((node, device), [])
        times_of_changes = [change.at for change in changes]
        readings = []
        for time in times:
            index = bisect_right(times_of_changes, time)
            if index:
                readings.append(UsageReading(time, changes[index - 1].memory, changes[index - 1].busy))
        return readings
