"""One output edge of a worker: its rings, and which of them takes a frame."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fairlead.pipeline.frame import DTYPES, Array, FrameHeader
from fairlead.pipeline.observe.histogram import DurationHistogram
from fairlead.pipeline.transport import PeerGone, Sender

Wait = Callable[[Sequence[int]], None]
"""Wait until a descriptor is readable or the coordinator has sent a message, which is then handled."""


class Outlet:
    """The frames that leave on one edge; the ring with the most credits takes the next frame."""

    def __init__(
        self, name: str, links: int, *, marked: bool, wait: Wait, is_stale: Callable[[int], bool]
    ) -> None:
        self.name = name
        self.marked = marked
        self._senders: list[Sender | None] = [None] * links
        self._wait = wait
        self._is_stale = is_stale
        self._turn = 0
        self._sent = 0
        self._times = DurationHistogram()

    def attach(self, index: int, sender: Sender) -> None:
        """Use a new ring for one of the links."""
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
            if index is None:
                self._wait([sender.fileno() for sender in self._senders if sender is not None])
            elif self._send_on(index, header, arrays):
                if header.parts:
                    self._sent += 1
                    self._times.observe(time.perf_counter() - begin)
                return

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
        """Return the link with the most credits, in turn; None: no link has one."""
        number = len(self._senders)
        order = [(self._turn + step) % number for step in range(number)]
        best = max(order, key=self._credits)
        if not self._credits(best):
            return None
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
        """Send on one link; False: its receiver is gone, and another link must take the frame."""
        sender = self._senders[index]
        if sender is None:
            return False
        try:
            slot = sender.reserve(header.sizes, 0)
            if slot is None:
                return False
            for part, array, buffer in zip(header.parts, arrays, slot.buffers, strict=True):
                target = np.frombuffer(buffer, DTYPES[part.dtype]).reshape(part.shape)
                np.copyto(target, array)
            sender.send(header, slot)
        except PeerGone:
            self._lose(index)
            return False
        return True

    def _lose(self, index: int) -> None:
        sender, self._senders[index] = self._senders[index], None
        if sender is not None:
            sender.close()
