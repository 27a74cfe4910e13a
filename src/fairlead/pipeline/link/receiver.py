"""The end of a link that frames are read from."""

import os
import struct
import time
import weakref
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import numpy as np

from fairlead.errors import FairleadError
from fairlead.pipeline.frame import DTYPES, HEADER_BYTES, Array, Frame, FrameError, FrameHeader, decode_header
from fairlead.pipeline.link.session import LinkLostError, LinkSession
from fairlead.pipeline.link.window import OpenMessage
from fairlead.pipeline.transport import PeerGone

_LENGTH: Final = struct.Struct("<I")
_LENGTH_AT: Final = 4
MOST_FRAME: Final = 1 << 28
"""The most bytes of a frame's payload that a link takes; 4K raw is a tenth of it."""
_Arrival = tuple[FrameHeader, memoryview]


class LinkReceiver:
    """The `Receiver` of a link; frames are stamped with the clock of this host."""

    def __init__(self, hello: Mapping[str, Any], depth: int) -> None:
        """Take what names the link, and how many frames may be under way or held."""
        self.session: LinkSession[_Arrival] = LinkSession(
            hello, depth, self._open, self._arrive, self._on_change
        )
        self._depth = depth
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._frames: deque[_Arrival] = deque()
        self._spare: list[memoryview] = []
        self._closed = False

    def receive(self, timeout: float | None) -> Frame | None:
        """Return the next frame, or None after `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        with self.session.changed:
            while not self._frames:
                with suppress(BlockingIOError):
                    os.eventfd_read(self._event)
                if self._closed or self.session.is_over:
                    os.eventfd_write(self._event, 1)
                    raise self._end()
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return None
                self.session.changed.wait(left)
            header, memory = self._frames.popleft()
        return self._frame(header, memory)

    def fileno(self) -> int:
        """Return a descriptor that is readable when a frame is there, and when the sender is gone."""
        return self._event

    def close(self) -> None:
        """Leave the stream: the sender sees PeerGone."""
        with self.session.changed:
            self._closed = True
        self.session.close()

    def _end(self) -> FairleadError:
        """Return why no frame comes any more."""
        if self.session.failure:
            return LinkLostError(self.session.failure)
        return PeerGone("the sender of the link is gone")

    def _frame(self, header: FrameHeader, memory: memoryview) -> Frame:
        offset = self.session.clock.seconds
        header = replace(header, captured=header.captured - offset, deadline=header.deadline - offset)
        root: Array = np.frombuffer(memory, np.uint8)
        root.flags.writeable = False
        arrays: list[Array] = []
        at = 0
        for part in header.parts:
            arrays.append(np.ndarray(part.shape, DTYPES[part.dtype], root, at))
            at += part.nbytes
        # Every array of the payload, and every view of one, refers to the root.
        lease = weakref.finalize(root, self._release, memory)
        lease.atexit = False
        return Frame(header, tuple(arrays), lambda: lease() or None)

    def _release(self, memory: memoryview) -> None:
        with self.session.changed:
            if len(self._spare) < self._depth and not memory.readonly:
                self._spare.append(memory)
        self.session.release()

    def _open(self, first: memoryview, total: int) -> OpenMessage[_Arrival]:
        """Make room for a frame whose header makes sense."""
        if len(first) < HEADER_BYTES:
            raise FrameError(f"a message of {total} bytes that begins with {len(first)}: no frame header")
        (length,) = _LENGTH.unpack_from(first, _LENGTH_AT)
        if not HEADER_BYTES <= length <= len(first):
            raise FrameError(f"a frame header of {length} bytes")
        header = decode_header(first[:length])
        size = sum(header.sizes)
        if size > MOST_FRAME or total != length + size:
            raise FrameError(f"frame {header.sequence} of {size} bytes in a message of {total}")
        if len(first) == total and all(DTYPES[part.dtype].itemsize == 1 for part in header.parts):
            # One copy less; wider elements would not be aligned.
            return OpenMessage((header, first[length:]), None, length)
        return OpenMessage((header, memory := self._memory(size)), memory, length)

    def _memory(self, size: int) -> memoryview:
        with self.session.changed:
            while self._spare:
                memory = self._spare.pop()
                if len(memory) >= size:
                    return memory
        return memoryview(bytearray(size))

    def _arrive(self, arrival: _Arrival) -> None:
        self._frames.append(arrival)
        os.eventfd_write(self._event, 1)

    def _on_change(self) -> None:
        os.eventfd_write(self._event, 1)

    def __del__(self) -> None:
        os.close(self._event)
