"""LRU: every miss promotes, the least recently used files leave."""

from fairlead.tiering.policies.fast_tier import ByteQueue, FastTier
from fairlead.units import Bytes


class LruPolicy(FastTier):
    """Keep what was used last."""

    def __init__(self, capacity: Bytes) -> None:
        super().__init__(capacity)
        self._fast = ByteQueue()

    def access(self, key: str, size: int) -> bool:
        """Return whether the file is on the fast tier; if not, it is promoted."""
        fast = self._fast
        held = fast.files.get(key)
        if held is None:
            self.promoted = size <= self.capacity and self.admits(key, size)
            if self.promoted:
                self._make_room(size)
                fast.push(key, size)
            return False
        fast.touch(key)
        if held != size and self.resizes:
            fast.resize(key, size)
            self._make_room(0)
        return True

    def admits(self, key: str, size: int) -> bool:
        """Return whether a missed file that fits may be promoted; plain LRU promotes every one."""
        del key, size
        return True

    def adopt(self, key: str, size: int) -> None:
        """Count it as the most recently used."""
        self._fast.push(key, size)
        self._make_room(0)

    def remove(self, key: str) -> None:
        """Forget it."""
        self._fast.drop(key)

    def holds(self, key: str) -> bool:
        """Return whether it is on the fast tier."""
        return key in self._fast.files

    def _make_room(self, size: int) -> None:
        fast, limit = self._fast, self.capacity - size
        if fast.used <= limit:
            return
        last = next(reversed(fast.files))
        if fast.files[last] > self.capacity:  # it has grown beyond the tier: the others may stay
            fast.drop(last)
            self.demoted.append(last)
        while fast.used > limit:
            self.demoted.append(fast.pop()[0])
