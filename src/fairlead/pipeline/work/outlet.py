"""One output edge of a worker: its rings, and which of them takes a frame."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from fairlead.pipeline.frame import DTYPES, Array, FrameHeader, PartHeader
from fairlead.pipeline.observe.histogram import DurationHistogram
from fairlead.pipeline.transport import PeerGone, Sender, Slot

Wait = Callable[[Sequence[int]], None]
"""Wait until a descriptor is readable or the coordinator has sent a message, which is then handled."""
_Targets = tuple[tuple[memoryview, ...], tuple[PartHeader, ...], list[Array]]
"""The buffers of a slot, the parts of a frame in it, and the arrays of both."""
_NO_TARGETS: Final[_Targets] = ((), (), [])


class Outlet:
    """The frames that leave on one edge; the ring with the most credits takes the next frame."""

    def __init__(
        self, name: str, links: int, *, marked: bool, wait: Wait, is_stale: Callable[[int], bool]
    ) -> None:
        self.name = name
        self.marked = marked
        self._senders: list[Sender | None] = [None] * links
        self._is_single = links == 1
        self._wait = wait
        self._is_stale = is_stale
        self._turn = 0
        self._sent = 0
        self._times = DurationHistogram()
        self._targets: dict[int, _Targets] = {}
        """Of a single link: the arrays of each slot."""

    def attach(self, index: int, sender: Sender) -> None:
        """Use a new ring for one of the links."""
        self._targets.clear()
        self._senders[index], old = sender, self._senders[index]
        if old is not None:
            old.close()

    @property
    def is_attached(self) -> bool:
        """Whether every link has had its ring."""
        return all(sender is not None for sender in self._senders)

    def send(self, header: FrameHeader, arrays: Sequence[Array]) -> None:
        """Send one frame, as soon as a ring has a credit; a frame of an older epoch is not sent."""
        begin = time.perf_counter()
        while not self._is_stale(header.epoch):
            index = self._choose()
            if index is not None and self._send_on(index, header, arrays):
                if header.parts:
                    self._sent += 1
                    self._times.observe(time.perf_counter() - begin)
                return
            if index is None or self._is_single:
                self._wait([sender.fileno() for sender in self._senders if sender is not None])

    def send_end(self, header: FrameHeader) -> None:
        """End every link."""
        for index in range(len(self._senders)):
            while not self._is_stale(header.epoch) and not (
                self._credits(index) and self._send_on(index, header, ())
            ):
                sender = self._senders[index]
                self._wait([sender.fileno()] if sender is not None else [])

    def counts(self) -> dict[str, Any]:
        """Return the counters of the edge at this end."""
        return {"sent": self._sent, "times": {"send": self._times.to_json()}}

    def _choose(self) -> int | None:
        """Return the link with the most credits, in turn; None: none has one. A single link is not asked."""
        number = len(self._senders)
        if self._is_single:  # nothing to choose from, and an attempt says as much as its credits
            return 0
        best, most = None, 0
        for step in range(number):
            index = (self._turn + step) % number
            if (free := self._credits(index)) > most:
                best, most = index, free
        if best is not None:
            self._turn = (best + 1) % number
        return best

    def _credits(self, index: int) -> int:
        sender = self._senders[index]
        try:
            return sender.credits() if sender is not None else 0
        except PeerGone:
            self._lose(index)
            return 0

    def _send_on(self, index: int, header: FrameHeader, arrays: Sequence[Array]) -> bool:
        """Send on one link; False: it has no credit, or its receiver is gone."""
        sender = self._senders[index]
        if sender is None:
            return False
        try:
            slot = sender.reserve(header.sizes, 0)
            if slot is None:
                return False
            for target, array in zip(self._targets_in(slot, header.parts), arrays, strict=True):
                np.copyto(target, array)
            sender.send(header, slot)
        except PeerGone:
            self._lose(index)
            return False
        return True

    def _targets_in(self, slot: Slot, parts: tuple[PartHeader, ...]) -> list[Array]:
        """Return the buffers of a slot as arrays; those of its last frame mostly serve again."""
        if not self._is_single:
            return _arrays(slot.buffers, parts)
        buffers, of_parts, targets = self._targets.get(slot.number, _NO_TARGETS)
        if buffers is not slot.buffers or of_parts != parts:
            targets = _arrays(slot.buffers, parts)
            self._targets[slot.number] = slot.buffers, parts, targets
        return targets

    def _lose(self, index: int) -> None:
        sender, self._senders[index] = self._senders[index], None
        if sender is not None:
            sender.close()


def _arrays(buffers: Sequence[memoryview], parts: Sequence[PartHeader]) -> list[Array]:
    pairs = zip(buffers, parts, strict=True)
    return [np.frombuffer(buffer, DTYPES[part.dtype]).reshape(part.shape) for buffer, part in pairs]
