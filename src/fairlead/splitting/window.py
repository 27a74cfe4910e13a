"""The pending inputs that are in memory: by where their bytes are; the rest stays in the database."""

from collections import OrderedDict
from collections.abc import Iterable

from fairlead.splitting.items import BytesAt, SplitInput


class PendingWindow:
    """Inputs that no worker holds, in their order."""

    def __init__(self) -> None:
        self._stored: OrderedDict[int, SplitInput] = OrderedDict()
        self._elsewhere: OrderedDict[int, SplitInput] = OrderedDict()
        """Inputs whose bytes the store does not have."""
        self._wanted: OrderedDict[int, SplitInput] = OrderedDict()
        """Inputs whose bytes are on their way to the store."""

    def __len__(self) -> int:
        """Return how many inputs wait."""
        return len(self._stored) + len(self._elsewhere) + len(self._wanted)

    def __contains__(self, number: int) -> bool:
        """Return whether an input waits."""
        return number in self._stored or number in self._elsewhere or number in self._wanted

    @property
    def stored(self) -> int:
        """Return how many of them are in the store, or on their way to it."""
        return len(self._stored) + len(self._wanted)

    @property
    def wanted(self) -> int:
        """Return how many are on their way to the store."""
        return len(self._wanted)

    @property
    def unstored(self) -> int:
        """Return how many are not in the store."""
        return len(self._elsewhere) + len(self._wanted)

    def add(self, inputs: Iterable[SplitInput], *, first: bool = False) -> None:
        """Add inputs at the end, or before all others."""
        for each in inputs:
            self.discard(each.id)
            place = self._stored if each.stored else self._elsewhere
            place[each.id] = each
            if first:
                place.move_to_end(each.id, last=False)

    def discard(self, number: int) -> None:
        """Remove an input, if it is there."""
        for place in (self._stored, self._elsewhere, self._wanted):
            place.pop(number, None)

    def pop(self, number: int) -> SplitInput:
        """Take one input out."""
        for place in (self._stored, self._elsewhere, self._wanted):
            if number in place:
                return place.pop(number)
        raise KeyError(number)

    def runnable(self, has: BytesAt) -> int:
        """Return how many inputs a worker could begin."""
        return len(self._stored) if has is BytesAt.STORED else len(self)

    def take(self, count: int, has: BytesAt) -> list[SplitInput]:
        """Take inputs out: those first whose bytes the worker has, then those that it can reach."""
        places = [self._elsewhere, self._wanted, self._stored]
        if has is BytesAt.STORED:
            places = [self._stored]
        elif has is BytesAt.ALL and not self._elsewhere:
            places.reverse()
        taken: list[SplitInput] = []
        for place in places:
            while place and len(taken) < count:
                taken.append(place.popitem(last=False)[1])
        return taken

    def want(self, count: int) -> list[SplitInput]:
        """Have the bytes of so many more inputs brought to the store; return all that are on their way."""
        while len(self._wanted) < count and self._elsewhere:
            number, item = self._elsewhere.popitem(last=False)
            self._wanted[number] = item
        return list(self._wanted.values())
