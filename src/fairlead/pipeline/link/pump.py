"""Frames from a ring into a link, and from a link into a ring."""

import select
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np

from fairlead.errors import FairleadError
from fairlead.pipeline.edge import EdgeBuffer, EdgeContract, EdgePolicy
from fairlead.pipeline.frame import Array, Frame, FrameHeader, boottime
from fairlead.pipeline.transport import PeerGone, Receiver, Sender
from fairlead.pipeline.work.values import is_end, mark_of

_PERIOD: Final = 0.25
"""Seconds after which an idle pump looks whether the other end is still there."""
_MOST_MARKS: Final = 1024
DROPPING: Final = (EdgePolicy.DROP_OLDEST, EdgePolicy.DROP_NEWEST, EdgePolicy.LATEST_ONLY)
"""What an edge with one of these policies drops is dropped before a slow link, not behind it."""
Convert = Callable[[Frame], tuple[FrameHeader, Sequence[Array]]]
"""What changes frames on their way, such as into JPEG."""


def as_they_are(frame: Frame) -> tuple[FrameHeader, Sequence[Array]]:
    """Change nothing."""
    return frame.header, frame.buffers


def pump(
    receiver: Receiver, sender: Sender, on_fault: Callable[[str], None], convert: Convert = as_they_are
) -> None:
    """Pass every frame on until one end is gone, then close both; the place comes first, then the frame."""
    waiting = select.poll()
    waiting.register(sender.fileno(), select.POLLIN)
    try:
        while True:
            if not sender.credits():
                waiting.poll(_PERIOD * 1000)
            elif (frame := receiver.receive(_PERIOD)) is not None:
                _pass_on(frame, sender, convert)
    except PeerGone:
        pass  # the coordinator joins the workers again, or has ended them
    except FairleadError as error:
        on_fault(str(error))
    finally:
        receiver.close()
        sender.close()


def _pass_on(frame: Frame, sender: Sender, convert: Convert) -> None:
    header, arrays = convert(frame) if frame.header.parts else (frame.header, ())
    slot = sender.reserve(header.sizes, None)
    assert slot is not None
    for buffer, array in zip(slot.buffers, arrays, strict=True):
        np.copyto(np.frombuffer(buffer, array.dtype).reshape(array.shape), array)
    sender.send(header, slot)
    frame.release()


class DroppingReceiver:
    """A `Receiver` that never lets its sender wait: it holds frames, and drops them by the edge's policy."""

    def __init__(self, receiver: Receiver, contract: EdgeContract) -> None:
        self._receiver = receiver
        self._buffer: EdgeBuffer[Frame] = EdgeBuffer(contract, lambda frame: frame.header.captured)
        self._marks: deque[Frame] = deque()
        self._ends: deque[Frame] = deque()
        self._changed = threading.Condition()
        self._gone = False
        self._closed = False
        threading.Thread(target=self._read, name="link buffer", daemon=True).start()

    def receive(self, timeout: float | None) -> Frame | None:
        """Return the oldest frame that is held, then marks, then the end; None after `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._gone or self._buffer or self._marks or self._ends, timeout)
            frame, drops = self._buffer.take(boottime())
            self._drop([drop.item for drop in drops])
            if frame is None and self._marks:
                frame = self._marks.popleft()
            elif frame is None and self._ends:
                frame = self._ends.popleft()
            self._changed.notify_all()
            if frame is None and self._gone and not (self._marks or self._ends):
                raise PeerGone("the sender of the edge is gone")
            return frame

    def fileno(self) -> int:
        """Return the descriptor of the receiver below."""
        return self._receiver.fileno()

    def close(self) -> None:
        """Leave the stream."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def dropped(self) -> dict[str, int]:
        """Return what was dropped, by reason."""
        with self._changed:
            return {str(reason): number for reason, number in self._buffer.counts.dropped.items()}

    def _read(self) -> None:
        with suppress(FairleadError):
            while not self._closed:
                frame = self._receiver.receive(_PERIOD)
                if frame is not None:
                    self._offer(frame)
        with self._changed:
            self._gone = True
            self._changed.notify_all()
        self._receiver.close()

    def _offer(self, frame: Frame) -> None:
        with self._changed:
            # Marks are few, but none may be lost: a stage behind waits for them.
            self._changed.wait_for(lambda: self._closed or len(self._marks) < _MOST_MARKS)
            if frame.header.parts:
                self._drop([drop.item for drop in self._buffer.offer(frame, boottime())])
            else:
                (self._ends if is_end(frame.header) else self._marks).append(frame)
            self._changed.notify_all()

    def _drop(self, frames: list[Frame]) -> None:
        for frame in frames:
            self._marks.append(Frame(mark_of(frame.header), ()))
            frame.release()


def start_pump(name: str, *arguments: Any) -> None:
    """Run `pump` in a thread."""
    threading.Thread(target=pump, args=arguments, name=name, daemon=True).start()
