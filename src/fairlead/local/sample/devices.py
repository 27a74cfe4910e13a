"""What one job uses of the accelerators: by their processes, or by the growth of one that it has alone."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from fairlead.local.view import DeviceView
from fairlead.share import DeviceShare
from fairlead.units import Bytes

LEAST_GROWTH: Final = Bytes(64 << 20)
"""Growth of a device's memory below which it is no sign of use: the context of a framework takes more."""


@dataclass(frozen=True, slots=True)
class JobDeviceUse:
    """What a job used of the accelerators at one moment, by accelerator id."""

    memory: dict[str, Bytes] = field(default_factory=dict)
    busy: dict[str, float] = field(default_factory=dict)
    watts: float | None = None
    """Its share of their power; None: not measured."""


class JobDevices:
    """Follows what one job uses of the accelerators.

    A driver lists the processes of a device by pid. In a container it may list none, and other vendors'
    drivers list none at all: for a device that the job has alone, the growth of its memory counts then.
    """

    def __init__(self, shares: Sequence[DeviceShare]) -> None:
        self._shares = {share.device: share for share in shares}
        self._least: dict[str, int] = {}
        """The least memory of each device so far that its listed processes do not explain."""
        self.used: bool | None = None
        """Whether the job used an accelerator; None: unknown."""
        self.total: Bytes | None = None
        """The memory of the accelerator that it was given."""
        self._unexplained = False

    def measure(self, devices: Sequence[DeviceView], pids: Collection[int]) -> JobDeviceUse:
        """Return what processes use of the accelerators now."""
        use = JobDeviceUse()
        watts: list[float] = []
        for device in devices:
            own = device.accelerator.id in self._shares
            self._measure_device(device, pids, use)
            part = self._part(device, use) if own else None
            if part is not None and device.power is not None:
                watts.append(device.power * part)
        if any(use.memory.values()) or any(use.busy.values()):
            self.used = True
        elif self._unexplained and not self.used:
            self.used = None
        return JobDeviceUse(use.memory, use.busy, sum(watts) if watts else None)

    def _measure_device(self, device: DeviceView, pids: Collection[int], use: JobDeviceUse) -> None:
        key, share = device.accelerator.id, self._shares.get(device.accelerator.id)
        mine = [each for each in device.processes or () if each.pid in pids]
        growth = self._growth(device)
        if share is not None:
            self.total = device.accelerator.memory or self.total
            if device.processes is not None and self.used is None and not self._unexplained:
                self.used = False
        if mine:
            use.memory[key] = Bytes(sum(each.memory or 0 for each in mine))
            use.busy[key] = min(1.0, sum(each.busy or 0.0 for each in mine))
        if share is None or (mine and use.memory[key]):
            return
        if share.whole and growth >= LEAST_GROWTH:
            use.memory[key] = growth
        elif growth >= LEAST_GROWTH:
            self._unexplained = True
        if share.whole and device.busy is not None and not use.busy.get(key):
            use.busy[key] = device.busy

    def _growth(self, device: DeviceView) -> Bytes:
        """Return the new memory that no listed process explains; the host's RAM shows nothing."""
        if device.memory_used is None or device.accelerator.unified_memory:
            return Bytes(0)
        listed = sum(each.memory or 0 for each in device.processes or ())
        rest = max(0, device.memory_used - listed)
        key = device.accelerator.id
        self._least[key] = min(rest, self._least.get(key, rest))  # the job before it may still be giving back
        return Bytes(rest - self._least[key])

    def _part(self, device: DeviceView, use: JobDeviceUse) -> float | None:
        """Return the part of a device's power that counts for the job; None: unknown."""
        key = device.accelerator.id
        if self._shares[key].whole:
            return 1.0
        busy = [each.busy for each in device.processes or () if each.busy is not None]
        total = max(sum(busy), device.busy or 0.0)
        return use.busy.get(key, 0.0) / total if total > 0 else None
