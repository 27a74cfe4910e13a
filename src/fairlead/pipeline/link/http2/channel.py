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
_LEAST_COLLECTED: Final = 1 << 15
_MOST_COLLECTED: Final = 1 << 17
"""Bytes that wake a reader: a call for each record of TLS costs more than to decrypt it."""
_AHEAD: Final = 1 << 15
"""Bytes that OpenSSL may have taken from the kernel already."""


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
        self._collected = 1
        sock.settimeout(0)
        with suppress(OSError):  # a Unix socket has neither
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT)

    def read_into(self, view: memoryview, timeout: float) -> int:
        """Read what is there, at least one byte; 0: not enough to wake for came in `timeout` seconds.

        All of `view` is to come: of a long one the kernel collects a part before it wakes this thread.
        ChannelClosedError at the end.
        """
        poll: select.poll | None = None
        while True:
            count, wanted = self._read_some(view)
            if count:
                return count
            self._collect(min(_MOST_COLLECTED, len(view) - _AHEAD))
            poll = poll or select.poll()
            poll.register(self._socket.fileno(), wanted)
            if not poll.poll(timeout * 1000):
                return 0

    def _collect(self, size: int) -> None:
        """Let the kernel report that many bytes at once, or any byte."""
        size = size if size >= _LEAST_COLLECTED else 1
        if size != self._collected:
            self._collected = size
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)

    def _read_some(self, view: memoryview) -> tuple[int, int]:
        """Return how many bytes were there; without any, also what to wait for."""
        done = 0
        try:
            while done < len(view):  # OpenSSL returns one record at a time
                with self._lock:
                    self._require_open()
                    count = self._socket.recv_into(view[done:])
                if not count and not done:
                    raise ChannelClosedError("the other side has ended the connection")
                done += count
                if not count or not self._secure:
                    break
        except (BlockingIOError, ssl.SSLWantReadError):
            return done, _IN
        except ssl.SSLWantWriteError:
            return done, _OUT
        except OSError as error:
            raise ChannelClosedError(_reason(error)) from error
        return done, _IN

    def write(self, pieces: Sequence[Buffer]) -> None:
        """Write all of it; one caller at a time. ChannelClosedError once the connection has ended."""
        views = [memoryview(piece) for piece in pieces if len(piece)]
        if self._secure:
            views = _records(views)
        while views:
            _drop(views, self._write_some(views, None))

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


def _drop(views: list[memoryview], count: int) -> None:
    """Take bytes that were written out of what is left."""
    done = 0
    while done < len(views) and count >= len(views[done]):
        count -= len(views[done])
        done += 1
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
