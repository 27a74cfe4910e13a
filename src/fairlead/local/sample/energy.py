"""The energy of the processor that counts for one job: its share of the busy time of all cores.

Linux counts the energy of processor packages (RAPL) in microjoules. Since 2020 only root may read it.
"""

import os
from contextlib import suppress
from typing import Final

from fairlead.host import total_ticks

_ZONES: Final = "sys/class/powercap"
_PREFIX: Final = "intel-rapl:"
"""AMD's processors have the same name. A second colon is a part of a package, which counts in it already."""
_MICRO: Final = 1e-6
_LIMIT: Final = 4096


class ProcessorEnergy:
    """Follows the energy of the processor from call to call."""

    def __init__(self, root: str = "/") -> None:
        self._root = root
        self._ticks = os.sysconf("SC_CLK_TCK")
        folder, names = os.path.join(root, _ZONES), []
        with suppress(OSError):
            names = [name for name in os.listdir(folder) if name.startswith(_PREFIX) and name.count(":") == 1]
        zones = [os.path.join(folder, name) for name in sorted(names)]
        self._counts = {
            zone: count for zone in zones if (count := self._number(zone, "energy_uj")) is not None
        }
        self._busy = self._busy_seconds() if self._counts else None

    def joules(self, cpu_seconds: float) -> float | None:
        """Return the energy since the last call that counts for CPU seconds in that time; None: unknown."""
        if self._busy is None:
            return None
        energy = sum(self._grown(zone) for zone in self._counts) * _MICRO
        busy, before = self._busy_seconds(), self._busy
        self._busy = busy
        if busy is None:
            return None
        return energy * min(1.0, cpu_seconds / (busy - before)) if busy > before else 0.0

    def _grown(self, zone: str) -> int:
        count = self._number(zone, "energy_uj")
        if count is None:
            return 0
        grown, self._counts[zone] = count - self._counts[zone], count
        return grown if grown >= 0 else grown + (self._number(zone, "max_energy_range_uj") or -grown)

    def _busy_seconds(self) -> float | None:
        ticks = total_ticks(self._read(os.path.join(self._root, "proc/stat")))
        return None if ticks is None else ticks[0] / self._ticks

    def _number(self, zone: str, name: str) -> int | None:
        text = self._read(os.path.join(zone, name)).strip()
        return int(text) if text.isdigit() else None

    @staticmethod
    def _read(path: str) -> bytes:
        try:
            with open(path, "rb", buffering=0) as file:
                return file.read(_LIMIT) or b""
        except OSError:
            return b""
