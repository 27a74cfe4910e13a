"""LRU with ghost admission: a file is promoted by its second access within a window."""

from fairlead.tiering.policies.fast_tier import ByteQueue
from fairlead.tiering.policies.lru import LruPolicy
from fairlead.units import Bytes


class LruGhostPolicy(LruPolicy):
    """Remember the names of missed files, as many bytes of them as the tier has; promote the next time.

    A tier is not a cache: the slow volume can serve a miss, so a promotion must earn its copy.
    """

    def __init__(self, capacity: Bytes) -> None:
        super().__init__(capacity)
        self._ghost = ByteQueue()

    def admits(self, key: str, size: int) -> bool:
        """Return whether the file was missed before, and is remembered."""
        if self._ghost.drop(key):
            return True
        self._ghost.push(key, size)
        self._ghost.trim(self.capacity)
        return False

    def remove(self, key: str) -> None:
        """Forget it in both lists."""
        super().remove(key)
        self._ghost.drop(key)
