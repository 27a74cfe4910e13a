"""One output edge of a worker: its rings, and which of them takes a frame."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from fairlead.pipeline.frame import DTYPES, Array, FrameHeader, PartHeader
from fairlead.pipeline.observe.histogram import DurationHistogram
from fairlead.pipeline.transport import PeerGone, Sender, Slot
from fairlead.pipeline.work.canary_share import CanaryShare
from fairlead.pipeline.work.values import end_of

Wait = Callable[[Sequence[int]], None]
"""Wait until a descriptor is readable or the coordinator has sent a message, which is then handled."""
OnSwitch = Callable[[str, int, int], None]
"""Takes the edge, the path, and the number of the first frame on it."""
_Targets = tuple[tuple[memoryview, ...], tuple[PartHeader, ...], list[Array]]
"""The buffers of a slot, the parts of a frame in it, and the arrays of both."""
_NO_TARGETS: Final[_Targets] = ((), (), [])


class Outlet:
    """The frames that leave on one edge; the ring with the most credits takes the next frame.

    A move gives it a new path, rings to other workers: from one frame on, all frames go there.
    """

    def __init__(
        self,
        name: str,
        links: int,
        *,
        marked: bool,
        wait: Wait,
        is_stale: Callable[[int], bool],
        path: int = 0,
        on_switch: OnSwitch = lambda name, path, sequence: None,
    ) -> None:
        self.name = name
        self.marked = marked
        self._path = path
        self._senders: list[Sender | None] = [None] * links
        self._next: tuple[int, list[Sender | None], CanaryShare] | None = None
        """The number and the rings of the new path."""
        self._canary = CanaryShare()
        self._is_switching = False
        self._on_switch = on_switch
        self._last = -1
        """The number of the last frame: all values of a frame take one path."""
        self._wait = wait
        self._is_stale = is_stale
        self._turn = 0
        self._sent = 0
        self._times = DurationHistogram()
        self._targets: dict[int, _Targets] = {}
        """Of a single link: the arrays of each slot."""

    def attach(self, index: int, sender: Sender, path: int = 0, links: int = 1, share: int = 0) -> None:
        """Use a new ring for one of the links; of a path that is new, keep it until the switch.

        `share`: the percent of the frames that a canary behind the ring gets at most; 0: it is none.
        """
        if path > self._path:
            if self._next is None or self._next[0] != path:
                self._next = path, [None] * links, CanaryShare()
            self._next[1][index] = sender
            self._next[2].set(index, share)
            return
        self._canary.set(index, share)
        self._targets.clear()
        self._senders[index], old = sender, self._senders[index]
        if old is not None:
            old.close()

    @property
    def is_attached(self) -> bool:
        """Whether every link has had its ring."""
        return all(sender is not None for sender in self._senders)

    def switch(self) -> None:
        """Let the next frame begin the new path."""
        self._is_switching = self._next is not None

    def commit(self) -> None:
        """Use the new path at once; the old one is left without its end."""
        if self._next is not None:
            self._use_next()

    def cancel(self) -> None:
        """Forget the new path."""
        dropped, self._next, self._is_switching = self._next, None, False
        _close_all(dropped[1] if dropped is not None else [])

    def send(self, header: FrameHeader, arrays: Sequence[Array]) -> None:
        """Send one frame, as soon as a ring has a credit; a frame of an older epoch is not sent."""
        begin = time.perf_counter()
        if self._is_switching and header.sequence != self._last:
            self._switch_at(header.sequence, header.epoch)
        self._last = header.sequence
        while not self._is_stale(header.epoch):
            index = self._choose()
            if index is not None and self._send_on(index, header, arrays):
                self._canary.count(index)
                if header.parts:
                    self._sent += 1
                    self._times.observe(time.perf_counter() - begin)
                return
            if index is None or self._is_single:
                self._wait(self._waited())

    def _waited(self) -> list[int]:
        """Return what says that a frame can be sent: not the ring of a canary that may have none now."""
        skipped = None if self._canary.is_due else self._canary.index
        return [
            sender.fileno()
            for index, sender in enumerate(self._senders)
            if sender is not None and index != skipped
        ]

    def send_end(self, header: FrameHeader) -> None:
        """End every link."""
        if self._is_switching:
            self._switch_at(self._last + 1, header.epoch)
        self._end_links(header)

    def _switch_at(self, sequence: int, epoch: int) -> None:
        """End the old path before a frame, and use the new one from it on."""
        self._is_switching = False
        if self._next is None:
            return
        path = self._next[0]
        self._on_switch(self.name, path, sequence)
        self._end_links(end_of(epoch))
        if self._next is not None and self._next[0] == path and not self._is_stale(epoch):
            self._use_next()

    def _end_links(self, header: FrameHeader) -> None:
        """End the links of the path that is in use; another path, or another epoch, ends the attempt."""
        senders = self._senders
        for index in range(len(senders)):
            while not self._is_stale(header.epoch) and not (
                self._credits(index) and self._send_on(index, header, ())
            ):
                sender = senders[index]
                self._wait([sender.fileno()] if sender is not None else [])
                if senders is not self._senders:
                    return

    def _use_next(self) -> None:
        assert self._next is not None
        old = self._senders
        self._path, self._senders, self._canary = self._next
        self._next, self._is_switching = None, False
        self._turn = 0
        self._targets.clear()
        _close_all(old)

    @property
    def _is_single(self) -> bool:
        return len(self._senders) == 1

    def counts(self) -> dict[str, Any]:
        """Return the counters of the edge at this end."""
        return {"sent": self._sent, "times": {"send": self._times.to_json()}}

    def _choose(self) -> int | None:
        """Return the link with the most credits, in turn; None: none has one. A single link is not asked.

        A canary gets a frame while it has had less than its share, and none else.
        """
        number = len(self._senders)
        if self._is_single:  # nothing to choose from, and an attempt says as much as its credits
            return 0
        canary = self._canary.index
        if canary is not None and self._canary.is_due and self._credits(canary):
            return canary
        best, most = None, 0
        for step in range(number):
            index = (self._turn + step) % number
            if index == canary:
                continue
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


def _close_all(senders: Sequence[Sender | None]) -> None:
    for sender in senders:
        if sender is not None:
            sender.close()


def _arrays(buffers: Sequence[memoryview], parts: Sequence[PartHeader]) -> list[Array]:
    pairs = zip(buffers, parts, strict=True)
    return [np.frombuffer(buffer, DTYPES[part.dtype]).reshape(part.shape) for buffer, part in pairs]
