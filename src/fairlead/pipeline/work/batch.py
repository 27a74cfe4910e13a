"""Dynamic batches for accelerators: bounded in size, and in the time that the first item waits.

Pure: the time comes in as an argument.
"""

import math
from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

from fairlead.units import Seconds

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """When a batch is processed."""

    size: int
    """How many items a batch waits for."""
    most: int
    """How many items a batch has at most, if they are there already."""
    wait: Seconds
    """How long the first item waits for others."""

    def __post_init__(self) -> None:
        if not 1 <= self.size <= self.most:
            raise ValueError(f"batches of {self.size} of at most {self.most} items: write numbers from 1")
        if not self.wait >= 0:
            raise ValueError(f"batch wait {self.wait}: write a duration of 0 or more, for example 10ms")


class Batcher(Generic[T]):
    """Items that are processed together, as a plan says."""

    def __init__(self, most: int, wait: Seconds) -> None:
        self._plan = BatchPlan(most, most, wait)
        self._held: deque[tuple[T, float]] = deque()
        self.has_waited = False
        """Whether the batch that is held, or else the one that was taken last, was asked for too early."""

    def __len__(self) -> int:
        return len(self._held)

    @property
    def plan(self) -> BatchPlan:
        """When a batch is processed now."""
        return self._plan

    def follow(self, plan: BatchPlan) -> None:
        """Change the plan; ValueError while items are held, because they were promised another wait."""
        if self._held:
            raise ValueError(f"the batch has {len(self._held)} items already: take it first")
        self._plan = plan

    @property
    def is_full(self) -> bool:
        """Whether the batch must be taken before another item is added."""
        return len(self._held) >= self._plan.most

    def add(self, item: T, now: float) -> None:
        """Add an item; ValueError for a full batch, so that no queue grows here."""
        if self.is_full:
            raise ValueError(f"the batch has {self._plan.most} items already: take it first")
        self.has_waited = self.has_waited and bool(self._held)
        self._held.append((item, now))

    def due(self) -> float:
        """Return the time from which `take` returns the batch: -inf if it is large enough, inf if empty."""
        if len(self._held) >= self._plan.size:
            return -math.inf
        return self._held[0][1] + self._plan.wait if self._held else math.inf

    def take(self, now: float) -> list[T]:
        """Return the batch if it is due, and nothing otherwise; at the time inf any batch is due."""
        if now < self.due() or not self._held:
            self.has_waited = True
            return []
        items = [item for item, _ in self._held]
        self._held.clear()
        return items
