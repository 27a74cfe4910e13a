"""2Q (Johnson and Shasha, 1994): a short queue for newcomers, LRU for files that returned."""

from typing import Final

from fairlead.tiering.policies.fast_tier import ByteQueue, FastTier
from fairlead.units import Bytes

_IN: Final = 0.25
"""The part of the capacity for newcomers."""
_OUT: Final = 0.5
"""How long a newcomer that left is remembered, in capacities."""


class TwoQPolicy(FastTier):
    """Take newcomers in a FIFO; those that return after they left it are kept by LRU."""

    def __init__(self, capacity: Bytes) -> None:
        super().__init__(capacity)
        self._in, self._main, self._out = ByteQueue(), ByteQueue(), ByteQueue()
        self._in_limit, self._out_limit = int(capacity * _IN), int(capacity * _OUT)
        self._main_limit = capacity - self._in_limit

    def access(self, key: str, size: int) -> bool:
        """Return whether the file is on the fast tier; if not, it is promoted."""
        for queue in (self._in, self._main):
            held = queue.files.get(key)
            if held is not None:
                if queue is self._main:
                    queue.touch(key)
                if held != size and self.resizes:
                    self._resize(queue, key, size)
                return True
        returned = self._out.drop(key)
        self.promoted = size <= self._in_limit  # a larger one would push every newcomer out
        if self.promoted:
            self._make_room(size)
            while returned and self._main.used + size > self._main_limit:
                self.demoted.append(self._main.pop()[0])
            (self._main if returned else self._in).push(key, size)
        return False

    def adopt(self, key: str, size: int) -> None:
        """Count it as a file that returned."""
        if size > self.capacity:
            self.demoted.append(key)
            return
        self._main.push(key, size)
        self._make_room(0)

    def remove(self, key: str) -> None:
        """Forget it."""
        for queue in (self._in, self._main, self._out):
            queue.drop(key)

    def holds(self, key: str) -> bool:
        """Return whether it is on the fast tier."""
        return key in self._in.files or key in self._main.files

    def _resize(self, queue: ByteQueue, key: str, size: int) -> None:
        queue.resize(key, size)
        if size > self.capacity:
            queue.drop(key)
            self.demoted.append(key)
        self._make_room(0)

    def _make_room(self, size: int) -> None:
        newcomers, main = self._in, self._main
        while newcomers.used + main.used + size > self.capacity:
            if newcomers.used > self._in_limit or not main.files:
                key, held = newcomers.pop()
                if held <= self._out_limit:
                    self._out.push(key, held)
                    self._out.trim(self._out_limit)
            else:
                key, _ = main.pop()
            self.demoted.append(key)
