"""Dynamic batches for accelerators: bounded in size, and in the time that the first item waits.

Pure: the time comes in as an argument.
"""

import math
from collections import deque
from typing import Generic, TypeVar

from fairlead.units import Seconds

T = TypeVar("T")


class Batcher(Generic[T]):
    """Items that are processed together: `most` of them, or fewer once the first has waited for `wait`."""

    def __init__(self, most: int, wait: Seconds) -> None:
        if most < 1:
            raise ValueError(f"batches of at most {most} items: write a number from 1")
        if not wait >= 0:
            raise ValueError(f"batch wait {wait}: write a duration of 0 or more, for example 10ms")
        self._most = most
        self._wait = wait
        self._held: deque[tuple[T, float]] = deque()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def is_full(self) -> bool:
        """Whether the batch must be taken before another item is added."""
        return len(self._held) >= self._most

    def add(self, item: T, now: float) -> None:
        """Add an item; ValueError for a full batch, so that no queue grows here."""
        if self.is_full:
            raise ValueError(f"the batch has {self._most} items already: take it first")
        self._held.append((item, now))

    def due(self) -> float:
        """Return the time from which `take` returns the batch: -inf if it is full, inf if it is empty."""
        if self.is_full:
            return -math.inf
        return self._held[0][1] + self._wait if self._held else math.inf

    def take(self, now: float) -> list[T]:
        """Return the batch if it is due, and nothing otherwise; at the time inf any batch is due."""
        if now < self.due() or not self._held:
            return []
        items = [item for item, _ in self._held]
        self._held.clear()
        return items
