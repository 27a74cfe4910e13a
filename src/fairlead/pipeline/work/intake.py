"""One input edge of a worker: its rings, its buffer, and the order of its frames."""

import os
import select
import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from fairlead.pipeline.control import Message, contract_from_json
from fairlead.pipeline.edge import DropReason, EdgeBuffer, EdgeContract, EdgePolicy
from fairlead.pipeline.frame import Frame, FrameHeader, boottime
from fairlead.pipeline.observe.histogram import DurationHistogram
from fairlead.pipeline.transport import PeerGone, Receiver
from fairlead.pipeline.work.reorder import ReorderBuffer
from fairlead.pipeline.work.values import is_end, is_mark, mark_of

_PAUSE: Final = 0.1
_LIVE_DEADLINE: Final = 2.0
"""Seconds that a frame waits for one before it, where frames can be lost for good."""


class Intake:
    """The frames of one edge. If the edge may drop frames, a thread empties its rings meanwhile."""

    def __init__(
        self, name: str, contract: EdgeContract, links: int, *, merged: bool, replayable: bool, path: int = 0
    ) -> None:
        self.name = name
        self._path = path
        self._receivers: list[Receiver | None] = [None] * links
        self._next: tuple[int, list[Receiver | None]] | None = None
        """The number and the rings of a new path: its frames come behind the end of the old one."""
        self._ended = [False] * links
        self._early: list[Frame | None] = [None] * links
        """Frames of an epoch that has not begun here yet."""
        self._buffer: EdgeBuffer[Frame] = EdgeBuffer(contract, lambda frame: frame.header.captured)
        self._merged = merged
        self._deadline = float("inf") if replayable else _LIVE_DEADLINE
        self._reorder: dict[int, ReorderBuffer[Frame]] = {}
        self._start: Mapping[int, int] = {}
        self._ready: deque[Frame] = deque()
        self._marks: deque[FrameHeader] = deque()
        self._epoch = 0
        self._refused = 0
        """Frames of an earlier epoch that came after its end."""
        self._void = 0
        """Frames that were held at the end of their epoch."""
        self._age = 0.0
        self._ages = DurationHistogram()
        self._waits = DurationHistogram()
        self._asked = 0.0
        """When the worker began to ask for the next frame; 0: it has not asked yet."""
        self.taken_at = 0.0
        """When the last frame was taken."""
        self._extra: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._room = threading.Event()
        self._threaded = contract.policy is not EdgePolicy.BLOCK
        if self._threaded:
            threading.Thread(target=self._empty_rings, name=f"intake {name}", daemon=True).start()

    def attach(self, index: int, receiver: Receiver, path: int = 0, links: int = 1) -> bool:
        """Use a new ring for one of the links; return whether that makes a new path whole."""
        with self._lock:
            if path > self._path:
                if self._next is None or self._next[0] != path:
                    self._next = path, [None] * links
                self._next[1][index] = receiver
                return all(each is not None for each in self._next[1])
            self._receivers[index], old = receiver, self._receivers[index]
            self._ended[index] = False
            if old is not None:
                old.close()
        return False

    def commit(self) -> None:
        """Use the new path at once; what is still on the old one is lost."""
        with self._lock:
            if self._next is not None:
                self._use_next()

    def cancel(self) -> None:
        """Forget the new path."""
        with self._lock:
            dropped, self._next = self._next, None
            _close_all(dropped[1] if dropped is not None else [])

    @property
    def is_attached(self) -> bool:
        """Whether every link has had its ring."""
        return all(receiver is not None for receiver in self._receivers)

    def start_epoch(self, epoch: int, start: Mapping[int, int]) -> None:
        """Drop what is held, and go on with frames of a new epoch."""
        with self._lock:
            self._epoch, self._start = epoch, start
            held = [*self._buffer.clear(), *self._ready]
            held += [frame for buffer in self._reorder.values() for frame in buffer.clear()]
            self._void += sum(bool(frame.header.parts) for frame in held)
            for frame in held:
                frame.release()
            self._reorder.clear()
            self._marks.clear()
            self._ready.clear()
            self._ended = [False] * len(self._ended)
        self._room.set()

    def take(self) -> Frame | None:
        """Return the next frame, or a frame without parts for one that is not to come; None: nothing yet."""
        with self._lock:
            if self._threaded:
                with suppress(BlockingIOError):
                    os.eventfd_read(self._wake)
            self._drain()
            now = boottime()
            self._asked = self._asked or now
            while not self._ready:
                if self._marks:  # first: under load the buffer is never empty, and a join waits for marks
                    self._put_in_order(Frame(self._marks.popleft(), ()), now)
                    continue
                frame, drops = self._buffer.take(now)
                self._marks += [mark_of(drop.item.header) for drop in drops]
                for drop in drops:
                    drop.item.release()
                if frame is not None:
                    self._put_in_order(frame, now)
                elif not self._marks and not self._pass_over(now):
                    break
            frame = self._ready.popleft() if self._ready else None
        if self._threaded:
            self._room.set()
        if frame is not None and frame.header.parts:
            now = boottime()
            self._age = now - frame.header.captured
            self._ages.observe(self._age)
            self._waits.observe(now - self._asked)
            self._asked, self.taken_at = 0.0, now
        return frame

    @property
    def is_over(self) -> bool:
        """Whether every link has ended and every frame was taken; missing frames are passed over."""
        with self._lock:
            over = all(self._ended) and not (self._buffer or self._marks or self._ready)
            if over and self._reorder:
                for buffer in self._reorder.values():
                    self._ready += buffer.ready(float("inf"))
            return over and not self._ready

    @property
    def contract(self) -> EdgeContract:
        """What the edge holds, and drops."""
        return self._buffer.contract

    @property
    def arrived(self) -> int:
        """How many frames have come for the stage, with those that were dropped meanwhile."""
        with self._lock:
            counts = self._buffer.counts
            return counts.offered - counts.dropped.get(DropReason.SAMPLED, 0)

    def discard(self, frame: Frame, reason: str) -> None:
        """Drop a frame that was taken, and count it."""
        if frame.header.parts:
            self._extra[reason] += 1
        frame.release()

    def descriptors(self) -> list[int]:
        """Return what a selector waits for: none while the buffer is full."""
        if self._threaded:
            return [self._wake]
        if self._buffer.must_wait:
            return []
        open_links = (index for index, receiver in enumerate(self._receivers) if receiver is not None)
        return [
            receiver.fileno()
            for index in open_links
            if self._early[index] is None and (receiver := self._receivers[index]) is not None
        ]

    def due(self) -> float:
        """Return when a missing frame is passed over; inf: none is."""
        if not self._merged:
            return float("inf")
        with self._lock:
            return min((buffer.due() for buffer in self._reorder.values()), default=float("inf"))

    def counts(self) -> dict[str, Any]:
        """Return the counters of the edge at this end."""
        with self._lock:
            counts = self._buffer.counts
            dropped = Counter({str(reason): number for reason, number in counts.dropped.items()})
            dropped.update(self._extra)
            if stale := self._refused + self._void:
                dropped["stale"] += stale
            held = counts.held + len(self._ready) + sum(map(len, self._reorder.values()))
            received = counts.offered + self._refused
            return {
                "received": received,
                "taken": received - held - sum(dropped.values()),
                "dropped": dict(dropped),
                "depth": held,
                "age": self._age,
                "times": {"receive": self._waits.to_json(), "age": self._ages.to_json()},
            }

    def _put_in_order(self, frame: Frame, now: float) -> None:
        if not self._merged:
            self._ready.append(frame)
            return
        stream, sequence = frame.header.stream, frame.header.sequence
        if stream not in self._reorder:
            self._reorder[stream] = ReorderBuffer(self._deadline, self._start.get(stream, 0))
        if not self._reorder[stream].add(sequence, frame, now):
            self.discard(frame, "late")
        self._ready += self._reorder[stream].ready(now)

    def _pass_over(self, now: float) -> bool:
        for buffer in self._reorder.values():
            self._ready += buffer.ready(now)
        return bool(self._ready)

    def _drain(self) -> bool:
        """Move frames from the rings into the buffer until it must wait or the rings are empty."""
        moved = False
        for index in range(len(self._receivers)):
            while not self._buffer.must_wait:
                frame = self._receive(index)
                if frame is None:
                    break
                moved = True
                self._accept(index, frame)
        if self._next is not None and all(self._ended) and all(each is not None for each in self._next[1]):
            self._use_next()
            return self._drain() or moved
        return moved

    def _use_next(self) -> None:
        assert self._next is not None
        old = self._receivers
        self._path, self._receivers = self._next
        self._next = None
        self._ended = [False] * len(self._receivers)
        self._early = [None] * len(self._receivers)
        _close_all(old)

    def _receive(self, index: int) -> Frame | None:
        receiver, early = self._receivers[index], self._early[index]
        if early is not None:
            if early.header.epoch > self._epoch:
                return None
            self._early[index] = None
            return early
        if receiver is None:
            return None
        try:
            frame = receiver.receive(0)
        except PeerGone:
            receiver.close()
            self._receivers[index] = None
            return None
        if frame is not None and frame.header.epoch > self._epoch:
            self._early[index] = frame
            return None
        return frame

    def _accept(self, index: int, frame: Frame) -> None:
        header = frame.header
        if header.epoch < self._epoch or not header.parts:
            if header.epoch < self._epoch:
                self._refused += bool(header.parts)
            elif is_end(header):
                self._ended[index] = True
            elif is_mark(header):
                self._marks.append(header)
            frame.release()
            return
        for drop in self._buffer.offer(frame, boottime()):
            self._marks.append(mark_of(drop.item.header))
            drop.item.release()

    def _empty_rings(self) -> None:
        """Run in a thread: a ring never waits for the stage, only for the policy."""
        while True:
            with self._lock:
                moved = self._drain()
                waits = [each.fileno() for each in self._receivers if each is not None]
                stuck = self._buffer.must_wait or any(self._early)
            if moved:
                os.eventfd_write(self._wake, 1)
            if stuck:
                self._room.clear()
                self._room.wait(_PAUSE)
            else:
                with suppress(OSError, ValueError):  # a ring was replaced meanwhile
                    select.select(waits, [], [], _PAUSE)


def _close_all(receivers: Sequence[Receiver | None]) -> None:
    for receiver in receivers:
        if receiver is not None:
            receiver.close()


def make_intake(body: Message, *, replayable: bool) -> Intake:
    """Return the intake of an edge as the driver describes it."""
    contract = contract_from_json(body["contract"])
    return Intake(
        body["edge"],
        contract,
        body["links"],
        merged=body["merged"],
        replayable=replayable,
        path=body["path"],
    )
