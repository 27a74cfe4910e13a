"""The results of replicas, put back in the order of their frames.

Pure: the time comes in as an argument, and must not run backwards.
"""

import heapq
from typing import Final, Generic, TypeVar

T = TypeVar("T")
_NEVER: Final = float("inf")


class ReorderBuffer(Generic[T]):
    """Items of one stream, handed out by sequence number.

    A gap is passed over once its frame is known to be dropped, or once an item behind it has waited for
    `deadline` seconds: no item waits longer. What comes later than that is refused. The buffer holds at most
    the frames that are in flight, which credits bound, also with an infinite deadline.
    """

    def __init__(self, deadline: float, first: int = 0) -> None:
        """Expect the sequence number `first` next."""
        if not deadline >= 0:
            raise ValueError(f"reorder deadline {deadline}: write a duration of 0 or more")
        self._deadline = deadline
        self._next = first
        self._held: dict[int, tuple[T, float]] = {}
        """Items by number with the times of their arrival, in the order of it."""
        self._order: list[int] = []
        self._gone: set[int] = set()
        self.skipped = 0
        """Frames that were passed over at the deadline."""
        self.refused = 0
        """Items that came after their turn, or twice."""

    def __len__(self) -> int:
        return len(self._held)

    @property
    def next_sequence(self) -> int:
        """The number that is handed out next."""
        return self._next

    def add(self, sequence: int, item: T, now: float) -> bool:
        """Hold an item until its turn; False, without holding it, if its turn is over or it came before."""
        if sequence < self._next or sequence in self._held or sequence in self._gone:
            self.refused += 1
            return False
        self._held[sequence] = item, now
        heapq.heappush(self._order, sequence)
        return True

    def drop(self, sequence: int) -> None:
        """Wait no longer for a frame that was dropped."""
        if sequence >= self._next and sequence not in self._held:
            self._gone.add(sequence)

    def ready(self, now: float) -> list[T]:
        """Return the items whose turn has come, in order."""
        ready: list[T] = []
        until = self._expired(now)
        while True:
            if self._next in self._held:
                heapq.heappop(self._order)
                ready.append(self._held.pop(self._next)[0])
            elif self._next in self._gone:
                self._gone.discard(self._next)
            elif self._order and self._order[0] <= until:
                self._pass_over(self._order[0])
                continue
            else:
                return ready
            self._next += 1

    def clear(self) -> list[T]:
        """Return every item that is held, and hold none."""
        items = [item for item, _ in self._held.values()]
        self._held.clear()
        self._order.clear()
        return items

    def due(self) -> float:
        """Return when `ready` passes over the next gap; inf: it waits for nothing."""
        return next((arrived + self._deadline for _, arrived in self._held.values()), _NEVER)

    def _expired(self, now: float) -> int:
        """Return the highest number that has waited for the whole deadline; -1: none."""
        highest = -1
        for sequence, (_, arrived) in self._held.items():
            if arrived + self._deadline > now:
                break
            highest = max(highest, sequence)
        return highest

    def _pass_over(self, sequence: int) -> None:
        """Go on with a number that is held; the missing ones before it are skipped."""
        known = {each for each in self._gone if each < sequence}
        self._gone -= known
        self.skipped += sequence - self._next - len(known)
        self._next = sequence
