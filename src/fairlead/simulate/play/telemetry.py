"""What an exporter would have measured: the recent use of each accelerator, for policies that place by it."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fairlead.simulate.play.accelerator import SimulatedAccelerator
from fairlead.units import Bytes

KEPT: Final = 600.0
"""Seconds of the past that can be asked for."""


@dataclass(frozen=True, slots=True)
class UsageReading:
    """What one look at an accelerator shows."""

    at: float
    memory: Bytes
    """That jobs hold."""
    busy: float


class SimulatedTelemetry:
    """Readings of each accelerator, by node and id; between two changes nothing changes."""

    def __init__(self) -> None:
        self._changes: dict[tuple[str, str], list[UsageReading]] = {}

    def record(self, now: float, card: SimulatedAccelerator) -> None:
        """Remember how an accelerator is from now on."""
        changes = self._changes.setdefault((card.node, card.state.id), [])
        if changes and changes[-1].at == now:
            changes.pop()
        changes.append(UsageReading(now, Bytes(card.memory), card.busy))
        if len(changes) > 64 and changes[len(changes) // 2].at < now - KEPT:
            del changes[: len(changes) // 2]

    def window(self, node: str, device: str, times: Iterable[float]) -> list[UsageReading]:
        """Return what would have been read at these moments; none from before the first job."""
        changes = self._changes.get((node, device), [])
        moments = [change.at for change in changes]
        found = []
        for at in times:
            index = bisect_right(moments, at)
            if index:
                found.append(UsageReading(at, changes[index - 1].memory, changes[index - 1].busy))
        return found
