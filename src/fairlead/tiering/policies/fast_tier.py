"""What every policy is made of: queues of files with their bytes, and the answer to an access."""

from abc import abstractmethod
from collections import OrderedDict
from typing import Protocol

from fairlead.units import Bytes


class ByteQueue:
    """Files in an order, the oldest first, and the bytes of them all."""

    __slots__ = ("files", "used")

    def __init__(self) -> None:
        self.files: OrderedDict[str, int] = OrderedDict()
        self.used = 0

    def push(self, key: str, size: int) -> None:
        """Add a file as the newest; it must not be there."""
        self.files[key] = size
        self.used += size

    def drop(self, key: str) -> bool:
        """Take a file out; return whether it was there."""
        size = self.files.pop(key, None)
        if size is None:
            return False
        self.used -= size
        return True

    def pop(self) -> tuple[str, int]:
        """Take the oldest file out, and return it with its bytes."""
        key, size = self.files.popitem(last=False)
        self.used -= size
        return key, size

    def resize(self, key: str, size: int) -> None:
        """Set the bytes of a file; it keeps its place."""
        self.used += size - self.files[key]
        self.files[key] = size

    def touch(self, key: str) -> None:
        """Make a file the newest."""
        self.files.move_to_end(key)

    def trim(self, limit: int) -> None:
        """Take the oldest files out until the others fit a limit."""
        while self.used > limit:
            self.pop()


class TieringPolicy(Protocol):
    """What decides which files are on the fast tier. Whoever replays it empties `demoted` after each call."""

    capacity: Bytes
    resizes: bool
    """Whether an access with other bytes changes the size of a file on the fast tier, as it does for files.
    Accesses of a block trace have sizes of their own: a block keeps the one with which it was promoted."""
    promoted: bool
    """Whether the last access, a miss, takes its file to the fast tier."""
    demoted: list[str]
    """Files that leave the fast tier by the last access."""

    @abstractmethod
    def access(self, key: str, size: int) -> bool:
        """Count an access to a file that has these bytes now; return whether it is on the fast tier."""

    @abstractmethod
    def adopt(self, key: str, size: int) -> None:
        """Count a file that is on the fast tier already, such as at a start."""

    @abstractmethod
    def remove(self, key: str) -> None:
        """Forget a file: it was deleted, or could not be moved."""

    @abstractmethod
    def holds(self, key: str) -> bool:
        """Return whether a file is on the fast tier."""


class FastTier(TieringPolicy):
    """The part that policies share: capacity, and what the last access decided."""

    def __init__(self, capacity: Bytes) -> None:
        self.capacity = capacity
        self.resizes = True
        self.promoted = False
        self.demoted: list[str] = []
