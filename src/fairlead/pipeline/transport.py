"""How frames leave one stage and reach the next: the protocol that every transport follows.

A sender reserves a slot, writes the payload into it and sends it with its header. Slots are credits, counted
in frames: without a free one `reserve` waits, or returns None, and the edge's policy decides what is dropped.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from fairlead.errors import FairleadError
from fairlead.pipeline.frame import Frame, FrameHeader

MOST_DEPTH: Final = 256
"""The most frames of an edge that are held or in flight: each may take a descriptor at both ends."""


class PeerGone(FairleadError):  # noqa: N818 - the normal end of a stream as well as a crash
    """The other end is closed or its process has ended; every frame that it sent was received before."""


class SlotMemoryError(FairleadError):
    """The machine, or the memory limit of the process, has no room for another slot."""


class Slot:
    """A place for one payload, reserved by a sender: send it or abandon it. A lost slot is abandoned."""

    __slots__ = ("_abandon", "buffers", "number")

    def __init__(
        self, number: int, buffers: tuple[memoryview, ...], abandon: Callable[["Slot"], None]
    ) -> None:
        self.number = number
        """Which slot of the sender."""
        self.buffers = buffers
        """Writable bytes, one for each part; empty once the slot is sent or abandoned."""
        self._abandon: Callable[[Slot], None] | None = abandon

    @property
    def is_open(self) -> bool:
        """Neither sent nor abandoned yet."""
        return self._abandon is not None

    def close(self) -> None:
        """Take the buffers away; a sender calls it once the slot is sent."""
        self._abandon, self.buffers = None, ()

    def abandon(self) -> None:
        """Give the slot back unsent; does nothing once it is sent or abandoned."""
        abandon = self._abandon
        self.close()
        if abandon is not None:
            abandon(self)

    def __del__(self) -> None:
        if self._abandon is not None:
            self.abandon()


class Sender(Protocol):
    """The end of an edge that frames are written to. One thread at a time may call it."""

    def reserve(self, sizes: Sequence[int], timeout: float | None) -> Slot | None:
        """Return a slot with one buffer for each size, or None without a credit in `timeout` seconds.

        A timeout of 0 does not wait, None waits without end. PeerGone once the receiver is gone, at the
        latest when no slot is free.
        """
        ...

    def send(self, header: FrameHeader, slot: Slot) -> None:
        """Hand a slot over, filled with the parts that the header describes."""
        ...

    def credits(self) -> int:
        """Return the number of slots that can be reserved at once; PeerGone once the receiver is gone."""
        ...

    def fileno(self) -> int:
        """Return a descriptor that is readable when a credit has come back, and when the receiver is gone.

        A credit counts that comes back after `reserve` or `credits` has found none.
        """
        ...

    def close(self) -> None:
        """End the stream: the receiver still gets every frame that was sent."""
        ...


class Receiver(Protocol):
    """The end of an edge that frames are read from. One thread calls it; any may release frames."""

    def receive(self, timeout: float | None) -> Frame | None:
        """Return the next frame, or None after `timeout` seconds; 0 does not wait, None waits without end.

        PeerGone after the last frame of a sender that is gone.
        """
        ...

    def fileno(self) -> int:
        """Return a descriptor that is readable when a frame is there, and when the sender is gone."""
        ...

    def close(self) -> None:
        """Leave the stream: the sender sees PeerGone. Frames that are still held stay readable."""
        ...
