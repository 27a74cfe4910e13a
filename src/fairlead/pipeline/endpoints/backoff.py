"""How long a source or a sink waits before it tries again. Pure."""

from typing import Final

FIRST: Final = 0.25
MOST: Final = 2.0


def delay(failures: int) -> float:
    """Return the seconds to wait after so many failures in a row: twice as long each time, up to `MOST`."""
    return min(MOST, FIRST * 2.0 ** min(failures - 1, 16))
