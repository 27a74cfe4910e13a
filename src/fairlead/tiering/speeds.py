"""TierSpeeds: how long a file takes on either tier, and what a hit saves and a move costs."""

from dataclasses import dataclass
from typing import Final

from fairlead.units import BytesPerSecond, Seconds

_SSD: Final = BytesPerSecond(500e6)
_HDD: Final = BytesPerSecond(150e6)
_SEEK: Final = Seconds(0.008)


@dataclass(frozen=True, slots=True)
class TierSpeeds:
    """The two volumes: whole files are read and written in one piece, the slow one seeks first."""

    ssd: BytesPerSecond = _SSD
    hdd: BytesPerSecond = _HDD
    seek: Seconds = _SEEK

    def slow(self, size: int) -> float:
        """Return the seconds that the slow volume takes for a file: what a dirty demotion costs."""
        return self.seek + size / self.hdd

    def saved(self, size: int) -> float:
        """Return the seconds that a hit saves."""
        return self.seek + size / self.hdd - size / self.ssd

    def promotion(self, size: int) -> float:
        """Return the seconds that a promotion takes: read from the slow volume, written to the fast one."""
        return self.seek + size / self.hdd + size / self.ssd
