"""The grid of sizes on which use is counted: levels in equal ratios, one grid for every pod."""

from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

from fairlead.units import Bytes

STEPS: Final = 16
"""Levels for each doubling: a size is rounded by at most 2.2 %."""
SMALLEST: Final = 24
"""The lowest level is 2**24 bytes (16 MiB), less than the context of any framework."""
LARGEST: Final = 44
"""The highest level is 2**44 bytes (16 TiB)."""
LEVELS: Final = tuple(
    Bytes(round(2 ** (SMALLEST + i / STEPS))) for i in range((LARGEST - SMALLEST) * STEPS + 1)
)
BORDERS: Final = tuple(low * 2 ** (0.5 / STEPS) for low in LEVELS[:-1])
"""Between each level and the next, in the middle of their ratio."""
MOST_BINS: Final = 32
"""Bins of a histogram: two doublings below the highest; anything lower counts in the lowest bin."""


def level(size: float) -> int:
    """Return the index of the level nearest to a size."""
    return bisect_left(BORDERS, size)


def bounded(bins: Mapping[int, float]) -> dict[int, float]:
    """Return at most `MOST_BINS` bins: the weight of lower ones moves up to the lowest that stays."""
    indices = sorted(bins, reverse=True)
    kept = {index: bins[index] for index in indices[:MOST_BINS]}
    if len(indices) > MOST_BINS:
        kept[indices[MOST_BINS - 1]] += sum(bins[index] for index in indices[MOST_BINS:])
    return kept
