"""The end of a link that frames are written to."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from fairlead.pipeline.frame import FrameError, FrameHeader, encode_header
from fairlead.pipeline.link.session import LinkLostError, LinkSession
from fairlead.pipeline.link.window import OpenMessage
from fairlead.pipeline.transport import PeerGone, Slot


class LinkSender:
    """The `Sender` of a link; a slot is memory of this process, kept until the other host has the frame."""

    def __init__(self, hello: Mapping[str, Any], depth: int) -> None:
        """Take what names the link, and how many frames may be under way."""
        self.session: LinkSession[None] = LinkSession(
            hello, depth, _refuse, lambda content: None, self._on_change
        )
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._spare: list[memoryview] = []
        self._reserved: dict[int, memoryview] = {}
        self._number = 0
        self._closed = False

    def reserve(self, sizes: Sequence[int], timeout: float | None) -> Slot | None:
        """Return a slot with one buffer for each size, or None without a credit in `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        with self.session.changed:
            while self._free() < 1:
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return None
                self.session.changed.wait(left)
            memory = self._memory(sum(sizes))
            self._number += 1
            self._reserved[self._number] = memory
        return Slot(self._number, _split(memory, sizes), self._abandon)

    def send(self, header: FrameHeader, slot: Slot) -> None:
        """Hand a slot over; FrameError if the header describes other sizes, and the slot stays open then."""
        if not slot.is_open or slot.number not in self._reserved:
            raise FrameError(f"frame {header.sequence}: slot {slot.number} is not reserved")
        sizes = tuple([len(buffer) for buffer in slot.buffers])
        if header.sizes != sizes:
            raise FrameError(
                f"frame {header.sequence} has parts of {header.sizes} bytes, its slot of {sizes}"
            )
        head = encode_header(header)
        with self.session.changed:
            memory = self._reserved.pop(slot.number)
            buffers = slot.buffers
            slot.close()
            self.session.post([head, *buffers], lambda: self._spare.append(memory))

    def credits(self) -> int:
        """Return the number of slots that can be reserved at once."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._event)
        with self.session.changed:
            return self._free()

    def fileno(self) -> int:
        """Return a descriptor that is readable when a credit has come back, and when the receiver is gone."""
        return self._event

    def close(self) -> None:
        """End the stream once the receiver has every frame; does not wait for it."""
        if not self._closed:
            self._closed = True
            self.session.close()

    def _free(self) -> int:
        if self.session.failure:
            raise LinkLostError(self.session.failure)
        if self.session.is_over or self._closed:
            raise PeerGone("the receiver of the link is gone")
        return self.session.credits - len(self._reserved)

    def _memory(self, size: int) -> memoryview:
        """Return memory of this size; what came back is used again while frames stay as they are."""
        while self._spare:
            memory = self._spare.pop()
            if len(memory) == size:
                return memory
        return memoryview(bytearray(size))

    def _abandon(self, slot: Slot) -> None:
        with self.session.changed:
            memory = self._reserved.pop(slot.number, None)
            if memory is not None:
                self._spare.append(memory)

    def _on_change(self) -> None:
        os.eventfd_write(self._event, 1)

    def __del__(self) -> None:
        os.close(self._event)


def _refuse(first: memoryview, total: int) -> OpenMessage[None]:
    raise FrameError("a frame from the receiver of a link")


def _split(memory: memoryview, sizes: Sequence[int]) -> tuple[memoryview, ...]:
    """Return the room for each part of a payload."""
    buffers, at = [], 0
    for size in sizes:
        buffers.append(memory[at : at + size])
        at += size
    return tuple(buffers)
