"""What both ends of a ring share: the messages on the socket, the control page, and how to wait.

The sender's message is a slot number and a frame header; numbers are u32, little endian. The receiver's
message is one byte, and only says that a slot has come back: which one stands in the control page.

    control page, 4096 bytes
    0     one byte for each slot: how often it has come back, modulo 256; the receiver writes it
    1024  one byte: 1 while the sender waits for a slot; the sender writes it

Each byte has one writer, which never reads it: neither end can be misled about its own state.
"""

import math
import select
import socket
import struct
import time
from _thread import allocate_lock
from typing import Final

from fairlead.pipeline.awake import AwakeWait
from fairlead.pipeline.transport import MOST_DEPTH

NUMBER: Final = struct.Struct("<I")
FLAGS: Final = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
"""The flags of every message that is sent."""
WAKE: Final = b"\1"
"""The receiver's message."""
CONTROL_BYTES: Final = 4096
WAITS: Final = 1024
"""Where the control page says that the sender waits."""
assert MOST_DEPTH <= WAITS


def fence() -> None:
    """Be a full memory barrier: accesses before it are visible to other processes before those after it.

    A lock that is given up and taken again is one: by locked instructions on x86, and on arm64 by a release
    followed by an acquire, which the architecture keeps in order (docs/decisions/0038-ring-returns.md). The
    lock is a new one, because a collection can come in between and end another lease in this thread.
    """
    lock = allocate_lock()
    lock.acquire()
    lock.release()
    lock.acquire()
    lock.release()


class SocketWait:
    """Waits for a socket."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._readable = select.poll()
        self._readable.register(end, select.POLLIN)
        self._awake = AwakeWait()

    def wait(self, until: float | None) -> bool:
        """Wait for a message or for the end of the peer; False after `until` on the monotonic clock."""
        if self._socket.fileno() < 0:
            return True  # the caller's next call says so; the number may be another descriptor's by now
        return bool(self._poll(None if until is None else until - time.monotonic()))

    def wait_awake(self, until: float | None) -> bool:
        """Do as `wait`, but for a moment without sleep where that pays."""
        if self._socket.fileno() < 0:
            return True
        return bool(self._awake.wait(self._poll, None if until is None else until - time.monotonic()))

    def is_readable(self) -> bool:
        """Return whether a message is there, or the peer is gone."""
        return self._socket.fileno() < 0 or bool(self._readable.poll(0))

    def wait_for_room(self) -> None:
        """Wait until the socket takes a message, or its peer is gone."""
        writable = select.poll()
        writable.register(self._socket, select.POLLOUT)
        writable.poll()

    def _poll(self, seconds: float | None) -> list[tuple[int, int]]:
        return self._readable.poll(None if seconds is None else max(0, math.ceil(seconds * 1000)))


def until(timeout: float | None) -> float | None:
    """Return when a timeout ends, as `SocketWait.wait` takes it."""
    return None if timeout is None else time.monotonic() + timeout
