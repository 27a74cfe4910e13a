"""How many accelerators sizes need: best fit, the largest first, by memory alone."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from typing import Final

from fairlead.units import Bytes

METHOD: Final = "best fit decreasing, by memory alone"


def accelerators_for(sizes: Iterable[int], memory: Bytes) -> int:
    """Return how many accelerators of this memory hold the sizes; a larger size counts for one."""
    free: list[int] = []
    full = 0
    for size in sorted(sizes, reverse=True):
        if size >= memory:
            full += 1
            continue
        place = bisect_left(free, size)
        left = free.pop(place) - size if place < len(free) else memory - size
        insort(free, left)
    return full + len(free)


def fleet_size(sizes_by_memory: Mapping[Bytes, Iterable[int]]) -> int:
    """Return how many accelerators all sizes need, each on accelerators of its own memory."""
    return sum(accelerators_for(sizes, memory) for memory, sizes in sizes_by_memory.items())
