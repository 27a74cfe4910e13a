"""The limits of what is kept, and the values that a measurement can have. Pure."""

from dataclasses import dataclass
from math import isfinite
from typing import Final

from fairlead.units import Bytes
from fairlead.use import UseFault

PERIOD: Final = 15.0
"""Seconds between two refreshes."""
WINDOW: Final = 600.0
"""Seconds of history."""
FRESH: Final = 60.0
"""Seconds after which a value is stale, unless three refresh periods are longer."""
_SIZE: Final = Bytes(96 << 20)
_MOST_MEMORY: Final = 2**44
"""16 TiB: no accelerator has a hundredth of it."""


@dataclass(frozen=True, slots=True)
class UseLimits:
    """How much measured use is kept, and from when on it is too old."""

    fresh: float = FRESH
    """Seconds after which a value is stale."""
    future: float = 30.0
    """Seconds by which the clock of a source may be ahead."""
    keys: int = 65_536
    """Devices and pods together; each has a series of memory and one of busy time."""
    points: int = 1_024
    """Points of one series."""
    size: Bytes = _SIZE
    """Bytes of all points."""

    @classmethod
    def for_period(cls, period: float) -> "UseLimits":
        """Return the default limits for a refresh period in seconds."""
        return cls(fresh=max(FRESH, 3 * period))


def check_memory(value: float, capacity: int = _MOST_MEMORY) -> UseFault | None:
    """Return why a value is not an amount of memory in use; None: it is one."""
    if not isfinite(value):
        return UseFault.NOT_A_NUMBER
    return None if 0 <= value <= capacity else UseFault.OUT_OF_RANGE


def check_busy(value: float) -> UseFault | None:
    """Return why a value is not a share of time; None: it is one."""
    if not isfinite(value):
        return UseFault.NOT_A_NUMBER
    return None if 0 <= value <= 1 else UseFault.OUT_OF_RANGE
