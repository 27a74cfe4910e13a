"""S3-FIFO (Yang et al., 2023): a small FIFO for newcomers, and a large one where used files stay."""

from typing import Final

from fairlead.tiering.policies.fast_tier import ByteQueue, FastTier
from fairlead.units import Bytes

_SMALL: Final = 0.1
"""The part of the capacity for newcomers."""
_GHOST: Final = 0.9
"""How long a newcomer that left is remembered, in capacities."""
_TO_MAIN: Final = 2
"""Accesses within the small FIFO after which a file goes on to the large one."""
_MOST: Final = 3
"""Rounds that a file can earn: a counter of two bits."""


class S3FifoPolicy(FastTier):
    """Let newcomers leave soon; keep what is used again, without an order by recency."""

    def __init__(self, capacity: Bytes) -> None:
        super().__init__(capacity)
        self._small, self._main, self._ghost = ByteQueue(), ByteQueue(), ByteQueue()
        self._uses: dict[str, int] = {}
        self._small_limit, self._ghost_limit = int(capacity * _SMALL), int(capacity * _GHOST)
        self._main_limit = capacity - self._small_limit
        self._is_full = False
        """Whether any file had to leave: before that, newcomers fill both queues."""

    def access(self, key: str, size: int) -> bool:
        """Return whether the file is on the fast tier; if not, it is promoted."""
        if key in self._uses:
            self._uses[key] += 1
            queue = self._small if key in self._small.files else self._main
            if self.resizes and queue.files[key] != size:
                self._resize(queue, key, size)
            return True
        returned = self._ghost.drop(key)
        # A newcomer as large as the small queue would push everything else out of it.
        self.promoted = size < self._small_limit or (returned and size == self._small_limit)
        if self.promoted:
            self._make_room(size)
            fills = not self._is_full and self._small.used >= self._small_limit
            (self._main if returned or fills else self._small).push(key, size)
            self._uses[key] = 0
        return False

    def adopt(self, key: str, size: int) -> None:
        """Count it in the large queue."""
        if size > self.capacity:
            self.demoted.append(key)
            return
        self._main.push(key, size)
        self._uses[key] = 0
        self._make_room(0)

    def remove(self, key: str) -> None:
        """Forget it."""
        for queue in (self._small, self._main, self._ghost):
            queue.drop(key)
        self._uses.pop(key, None)

    def holds(self, key: str) -> bool:
        """Return whether it is on the fast tier."""
        return key in self._uses

    def _resize(self, queue: ByteQueue, key: str, size: int) -> None:
        queue.resize(key, size)
        if size > self.capacity:
            queue.drop(key)
            self._demote(key)
        self._make_room(0)

    def _demote(self, key: str) -> None:
        del self._uses[key]
        self.demoted.append(key)

    def _make_room(self, size: int) -> None:
        while self._small.used + self._main.used + size > self.capacity:
            self._is_full = True
            if self._main.used > self._main_limit or not self._small.files:
                self._evict_main()
            else:
                self._evict_small()

    def _evict_small(self) -> None:
        while self._small.files:
            key, size = self._small.pop()
            if self._uses[key] < _TO_MAIN:
                self._demote(key)
                if size <= self._ghost_limit:
                    self._ghost.push(key, size)
                    self._ghost.trim(self._ghost_limit)
                return
            self._uses[key] = 0
            self._main.push(key, size)

    def _evict_main(self) -> None:
        while True:
            key, size = self._main.pop()
            uses = self._uses[key]
            if not uses:
                self._demote(key)
                return
            self._uses[key] = min(uses, _MOST) - 1
            self._main.push(key, size)
