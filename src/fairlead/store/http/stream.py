"""The bytes of a connection: a buffer before its socket, and writes that bound the time without progress."""

import os
import select
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeVar

from fairlead.store.http.limits import ServerLimits
from fairlead.store.http.pace import Pace

_PIECE: Final = 64 << 10
_TLS_PIECE: Final = 256 << 10
_SENDFILE: Final = 4 << 20
_END: Final = b"\r\n\r\n"
_TLS_EVENTS: Final[Mapping[type[OSError], int]] = {
    ssl.SSLWantReadError: select.POLLIN,
    ssl.SSLWantWriteError: select.POLLOUT,
}
"""TLS may have to read before it can write, and the other way round."""
T = TypeVar("T")
_SHORTER: Final = "the file became shorter while it was sent"


class ConnectionStream:
    """Reads and writes of one connection; cheroot takes it for its file of the socket.

    The socket never blocks: a call of the kernel that would be in vain is saved for each that is not, and a
    thread waits only where nothing has arrived.
    """

    def __init__(self, sock: socket.socket, limits: ServerLimits) -> None:
        self.socket = sock
        self.limits = limits
        self.closed = False
        self._waits = True
        self._buffer = bytearray()

    @property
    def has_head(self) -> bool:
        """Whether the whole head of a request is there, or more than it may have."""
        return _END in self._buffer or len(self._buffer) > self.limits.head_bytes

    @property
    def is_empty(self) -> bool:
        """Whether nothing of a next request has arrived."""
        return not self._buffer

    def peek_head(self) -> bytes:
        """Return the head of the next request."""
        return bytes(self._buffer[: max(0, self._buffer.find(_END)) + len(_END)])

    def fill(self) -> bool:
        """Take what has arrived on a socket that does not block; False where the client has closed it."""
        try:
            while data := self.socket.recv(_PIECE):
                self._buffer += data
                if self.has_head:
                    return True
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return True
        return False

    def drop(self) -> bool:
        """Drop what has arrived on a socket that does not block; False at its end."""
        self._buffer.clear()
        try:
            return bool(self.socket.recv(_PIECE))
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return True

    def receive(self, buffer: memoryview) -> int:
        """Receive some bytes; 0 where the client has closed the connection."""
        if self._buffer:
            count = min(len(buffer), len(self._buffer))
            buffer[:count] = self._buffer[:count]
            del self._buffer[:count]
            return count
        return self._when_ready(select.POLLIN, partial(self.socket.recv_into, buffer))

    @contextmanager
    def without_waiting(self) -> Iterator[None]:
        """Raise in reads of the block what says that nothing has arrived, instead of waiting for it."""
        self._waits = False
        try:
            yield
        finally:
            self._waits = True

    def readline(self, size: int = 1 << 16) -> bytes:
        """Return a line with its end; less where it is longer than `size`, or the connection ends."""
        while (end := self._buffer.find(b"\n", 0, size)) < 0 and len(self._buffer) < size:
            data = self._when_ready(select.POLLIN, partial(self.socket.recv, _PIECE))
            if not data:
                break
            self._buffer += data
        count = end + 1 if end >= 0 else min(size, len(self._buffer))
        line = bytes(self._buffer[:count])
        del self._buffer[:count]
        return line

    def write(self, data: bytes) -> int:
        """Send all of the data."""
        view, pace = memoryview(data), self.pace()
        while view:
            count = self._when_ready(select.POLLOUT, partial(self.socket.send, view[:_TLS_PIECE]))
            view = view[count:]
            pace.moved(count)
        return len(data)

    def send_file(self, handle: int, offset: int, length: int) -> Iterator[int]:
        """Send a part of a file, and yield how much at a time; the kernel sends it over plain connections."""
        send = self._send_piece if isinstance(self.socket, ssl.SSLSocket) else self._send_by_kernel
        pace = self.pace()
        while length:
            count = send(handle, offset, length)
            if not count:
                raise ConnectionError(_SHORTER)
            pace.moved(count)
            offset, length = offset + count, length - count
            yield count

    def _send_piece(self, handle: int, offset: int, length: int) -> int:
        return self.write(os.pread(handle, min(_TLS_PIECE, length), offset))

    def _send_by_kernel(self, handle: int, offset: int, length: int) -> int:
        sock, most = self.socket.fileno(), min(_SENDFILE, length)
        return self._when_ready(select.POLLOUT, lambda: os.sendfile(sock, handle, offset, most))

    def pace(self) -> Pace:
        """Return the pace of a new transfer."""
        return Pace(self.limits.pace, self.limits.silence)

    def close(self) -> None:
        """Mark it closed; the connection closes its socket."""
        self.closed = True

    def wait(self, milliseconds: float, event: int = select.POLLIN) -> bool:
        """Wait until the socket can be read, or written; False where the time ends before."""
        poll = select.poll()
        poll.register(self.socket, event)
        return bool(poll.poll(milliseconds))

    def _when_ready(self, event: int, step: Callable[[], T]) -> T:
        """Return what a step returns, once the socket is ready for it."""
        while True:
            try:
                return step()
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError) as busy:
                if not self._waits:
                    raise
                self._wait(_TLS_EVENTS.get(type(busy), event))

    def _wait(self, event: int) -> None:
        if not self.wait(self.limits.silence * 1000, event):
            raise TimeoutError("the client is silent, or takes nothing of the answer")
