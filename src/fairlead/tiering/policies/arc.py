"""ARC (Megiddo and Modha, 2003): recency and frequency share the tier by what their ghosts say."""

from fairlead.tiering.policies.fast_tier import ByteQueue, FastTier
from fairlead.units import Bytes


class ArcPolicy(FastTier):
    """Keep files seen once and files seen more often, each as large as its missed files ask for.

    In the paper's names `_once` is T1, `_often` T2, their ghosts B1 and B2, and `_target` is p, in bytes.
    """

    def __init__(self, capacity: Bytes) -> None:
        super().__init__(capacity)
        self._once, self._often = ByteQueue(), ByteQueue()
        self._once_ghost, self._often_ghost = ByteQueue(), ByteQueue()
        self._target = 0.0

    def access(self, key: str, size: int) -> bool:
        """Return whether the file is on the fast tier; if not, it is promoted."""
        for queue in (self._often, self._once):
            held = queue.files.get(key)
            if held is not None:
                queue.drop(key)
                self._keep(key, size if self.resizes else held)
                return True
        self.promoted = size <= self.capacity
        if not self.promoted:
            return False
        once, often = self._once_ghost, self._often_ghost
        was_often = key in often.files
        if key in once.files or was_often:
            self._adapt(was_often=was_often)
            (often if was_often else once).drop(key)
            self._make_room(size, was_often=was_often)
            self._often.push(key, size)
        else:
            self._make_room_for_newcomer(size)
            self._once.push(key, size)
        return False

    def adopt(self, key: str, size: int) -> None:
        """Count it as seen more often."""
        self._keep(key, size)

    def remove(self, key: str) -> None:
        """Forget it."""
        for queue in (self._once, self._often, self._once_ghost, self._often_ghost):
            queue.drop(key)

    def holds(self, key: str) -> bool:
        """Return whether it is on the fast tier."""
        return key in self._once.files or key in self._often.files

    def _adapt(self, *, was_often: bool) -> None:
        """Give the list whose ghost was missed more of the tier: the smaller its ghost, the more.

        The step counts bytes and is no multiple of the file's: libcachesim's ARC does the same, and is what
        hit ratios are compared with.
        """
        once, often = self._once_ghost.used, self._often_ghost.used
        step = -max(once / max(often, 1), 1.0) if was_often else max(often / max(once, 1), 1.0)
        self._target = min(max(self._target + step, 0.0), float(self.capacity))

    def _keep(self, key: str, size: int) -> None:
        if size > self.capacity:
            self.demoted.append(key)
            return
        self._often.push(key, size)
        self._make_room(0)

    def _make_room(self, size: int, *, was_often: bool = False) -> None:
        while self._once.used + self._often.used + size > self.capacity:
            self._replace(was_often=was_often)

    def _make_room_for_newcomer(self, size: int) -> None:
        once, ghost, limit = self._once, self._once_ghost, self.capacity
        while once.used + self._often.used + size > limit:
            if once.used + ghost.used + size <= limit:
                both = once.used + self._often.used + ghost.used + self._often_ghost.used
                if both >= 2 * limit and self._often_ghost.files:
                    self._often_ghost.pop()
                self._replace(was_often=False)
            elif ghost.files:
                ghost.pop()
                self._replace(was_often=False)
            else:
                self.demoted.append(once.pop()[0])

    def _replace(self, *, was_often: bool) -> None:
        """Demote the least recently used file of the list that is above its share, and remember it."""
        used = self._once.used
        from_once = used > self._target or (was_often and used == self._target)
        if self._once.files and (from_once or not self._often.files):
            queue, ghost = self._once, self._once_ghost
        else:
            queue, ghost = self._often, self._often_ghost
        key, size = queue.pop()
        ghost.push(key, size)
        self.demoted.append(key)
