"""A connected socket, plain or with TLS, that one thread reads while others write.

OpenSSL allows one call at a time for each connection: calls never wait inside it. Any thread may end a
connection by `shutdown`, which wakes the reader and the writer; `close` comes after both.
"""

import fcntl
import select
import socket
import ssl
import struct
import termios
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

Buffer = bytes | bytearray | memoryview
_IN: Final = select.POLLIN
_OUT: Final = select.POLLOUT
_MOST_PIECES: Final = 64
USER_TIMEOUT: Final = 4000
"""Milliseconds for which the kernel waits for the acknowledgement of what was sent."""
_RECORD: Final = 1 << 14
"""What one call of OpenSSL sends at most."""


class ChannelClosedError(OSError):
    """The connection has ended, at either side."""


class SocketChannel:
    """Bytes both ways."""

    def __init__(self, sock: socket.socket) -> None:
        """Take a connected socket, after its handshake if it has TLS."""
        self._socket = sock
        self._secure = isinstance(sock, ssl.SSLSocket)
        self._lock = threading.Lock()
        self._closed = False
        sock.settimeout(0)
        with suppress(OSError):  # a Unix socket has neither
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT)

    def read_into(self, view: memoryview, timeout: float) -> int:
        """Read at least one byte; 0: nothing came in `timeout` seconds. ChannelClosedError at the end."""
        poll: select.poll | None = None
        while True:
            try:
                with self._lock:
                    self._require_open()
                    count = self._socket.recv_into(view)
            except (BlockingIOError, ssl.SSLWantReadError):
                wanted = _IN
            except ssl.SSLWantWriteError:
                wanted = _OUT
            except OSError as error:
                raise ChannelClosedError(_reason(error)) from error
            else:
                if not count:
                    raise ChannelClosedError("the other side has ended the connection")
                return count
            poll = poll or select.poll()
            poll.register(self._socket.fileno(), wanted)
            if not poll.poll(timeout * 1000):
                return 0

    def write(self, pieces: Sequence[Buffer]) -> None:
        """Write all of it; one caller at a time. ChannelClosedError once the connection has ended."""
        views = [memoryview(piece) for piece in pieces if len(piece)]
        if self._secure:
            views = _records(views)
        while views:
            self._advance(views, self._write_some(views, None))

    def write_soon(self, data: bytes) -> int:
        """Write what goes without waiting; return how many bytes that was."""
        return self._write_some([memoryview(data)], 0)

    def unsent(self) -> int:
        """Return how many bytes the other side's kernel has not acknowledged."""
        with suppress(OSError):
            return int(struct.unpack("i", fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, bytes(4)))[0])
        return 0

    def shutdown(self) -> None:
        """End the connection: the reader and every writer notice."""
        with suppress(OSError):  # not SSLSocket.shutdown, after which the socket reads what is encrypted
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Free the descriptor; only once no thread reads or writes."""
        with self._lock:
            self._closed = True
            self._socket.close()

    def _require_open(self) -> None:
        if self._closed:
            raise ChannelClosedError("the connection has ended")

    def _write_some(self, views: Sequence[memoryview], timeout: float | None) -> int:
        poll: select.poll | None = None
        while True:
            try:
                with self._lock:
                    self._require_open()
                    if self._secure:
                        return self._socket.send(views[0])
                    return self._socket.sendmsg(views[:_MOST_PIECES])
            except (BlockingIOError, ssl.SSLWantWriteError):
                wanted = _OUT
            except ssl.SSLWantReadError:
                wanted = _IN
            except OSError as error:
                raise ChannelClosedError(_reason(error)) from error
            poll = poll or select.poll()
            poll.register(self._socket.fileno(), wanted)
            if not poll.poll(timeout) and timeout is not None:
                return 0

    @staticmethod
    def _advance(views: list[memoryview], count: int) -> None:
        done = 0
        while views and count >= len(views[done]):
            count -= len(views[done])
            done += 1
            if done == len(views):
                break
        del views[:done]
        if count:
            views[0] = views[0][count:]


def _records(views: list[memoryview]) -> list[memoryview]:
    """Return the same bytes without a short first piece: each piece would be a record of its own."""
    first = bytearray()
    rest = list(views)
    while rest and len(first) < _RECORD:
        room = _RECORD - len(first)
        first += rest[0][:room]
        if len(rest[0]) > room:
            rest[0] = rest[0][room:]
        else:
            del rest[0]
    return [memoryview(first), *rest]


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or str(error)).lower().replace('_', ' ')}"
    return (error.strerror or str(error)).lower()
