"""A connected socket, plain or with TLS, that one thread reads while others write.

Any thread may end a connection by `shutdown`, which wakes the reader and the writer; `close` comes after
both.
"""

import fcntl
import select
import socket
import ssl
import struct
import termios
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from fairlead.pipeline.link.http2.session import MOST_RECEIVED, TlsSession

Buffer = bytes | bytearray | memoryview
_IN: Final = select.POLLIN
_OUT: Final = select.POLLOUT
_MOST_PIECES: Final = 64
USER_TIMEOUT: Final = 4000
"""Milliseconds for which the kernel waits for the acknowledgement of what was sent."""
_RECORD: Final = 1 << 14
"""Bytes of a record of TLS."""
_MOST_ENCRYPTED: Final = 1 << 18
"""Bytes that are encrypted before they are sent."""
_LEAST_COLLECTED: Final = 1 << 15
_MOST_COLLECTED: Final = 1 << 17
"""Bytes that wake a reader: to wake costs more than to decrypt a record."""
_AHEAD: Final = 1 << 15
"""Bytes that OpenSSL may hold of a record that has not come whole."""
_ENDED: Final = "the other side has ended the connection"


class ChannelClosedError(OSError):
    """The connection has ended, at either side."""


class SocketChannel:
    """Bytes both ways."""

    def __init__(self, sock: socket.socket, tls: TlsSession | None = None) -> None:
        """Take a connected socket, and its TLS after the handshake."""
        self._socket = sock
        self._tls = tls
        self._raw = memoryview(bytearray(MOST_RECEIVED if tls else 0))
        self._encrypted = memoryview(b"")
        """What is encrypted and waits for the kernel; of the thread that writes."""
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
        while not (count := self._read_some(view)):
            self._collect(min(_MOST_COLLECTED, len(view) - _AHEAD))
            if poll is None:
                poll = select.poll()
                poll.register(self._socket.fileno(), _IN)
            if not poll.poll(timeout * 1000):
                return 0
        return count

    def _collect(self, size: int) -> None:
        """Let the kernel report that many bytes at once, or any byte."""
        size = size if size >= _LEAST_COLLECTED else 1
        if size != self._collected:
            self._collected = size
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)

    def _read_some(self, view: memoryview) -> int:
        """Return how many bytes were there."""
        try:
            return self._receive(view) if self._tls is None else self._decrypt(self._tls, view)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise ChannelClosedError(_reason(error)) from error

    def _receive(self, view: memoryview) -> int:
        count = self._socket.recv_into(view)
        if not count:
            raise ChannelClosedError(_ENDED)
        return count

    def _decrypt(self, tls: TlsSession, view: memoryview) -> int:
        """Decrypt what has come, as far as it fits."""
        done = 0
        while done < len(view):
            try:
                count = tls.decrypt_into(view[done:])
                if not count:
                    raise ChannelClosedError(_ENDED)
                done += count
            except ssl.SSLWantReadError:
                if not self._receive_more(tls, needed=not done):
                    break
        return done

    def _receive_more(self, tls: TlsSession, *, needed: bool) -> bool:
        """Take what the kernel has; return whether that was anything, and if it is needed raise why not."""
        try:
            tls.receive(self._raw[: self._receive(self._raw)])
        except OSError:
            if needed:
                raise
            return False  # what was decrypted comes first: the next call says so
        return True

    def write(self, pieces: Sequence[Buffer]) -> None:
        """Write all of it; one caller at a time. ChannelClosedError once the connection has ended."""
        views = [memoryview(piece) for piece in pieces if len(piece)]
        if self._tls is None:
            while views:
                _drop(views, self._send(views, None))
            return
        for portion in _portions(_records(views)):
            self._send_encrypted(None)
            self._encrypted = self._encrypt(self._tls, portion)
        self._send_encrypted(None)

    def write_soon(self, data: bytes) -> int:
        """Write what goes without waiting; return how many bytes that was; one caller at a time."""
        if self._tls is None:
            return self._send([memoryview(data)], 0)
        if not self._send_encrypted(0):
            return 0
        self._encrypted = self._encrypt(self._tls, [memoryview(data)])
        self._send_encrypted(0)  # what does not go is sent before anything else
        return len(data)

    @property
    def has_unsent(self) -> bool:
        """Whether `write_soon` has taken bytes that have not gone; it sends them, also without others."""
        return bool(self._encrypted) or (self._tls is not None and self._tls.has_output)

    def unsent(self) -> int:
        """Return how many bytes the other side's kernel has not acknowledged."""
        with suppress(OSError):
            return int(struct.unpack("i", fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, bytes(4)))[0])
        return 0

    def shutdown(self) -> None:
        """End the connection: the reader and every writer notice."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Free the descriptor; only once no thread reads or writes."""
        self._socket.close()

    def _encrypt(self, tls: TlsSession, views: Sequence[memoryview]) -> memoryview:
        try:
            return memoryview(tls.encrypt(views))
        except OSError as error:
            raise ChannelClosedError(_reason(error)) from error

    def _send_encrypted(self, timeout: float | None) -> bool:
        """Send what is encrypted; return whether all of it went in time."""
        while self._encrypted:
            count = self._send([self._encrypted], timeout)
            if not count:
                return False
            self._encrypted = self._encrypted[count:]
        return True

    def _send(self, views: Sequence[memoryview], timeout: float | None) -> int:
        """Return how many bytes the kernel took; 0: none in `timeout` milliseconds."""
        poll: select.poll | None = None
        while True:
            try:
                return self._socket.sendmsg(views[:_MOST_PIECES])
            except BlockingIOError:
                pass
            except OSError as error:
                raise ChannelClosedError(_reason(error)) from error
            if poll is None:
                poll = select.poll()
                poll.register(self._socket.fileno(), _OUT)
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


def _portions(views: Sequence[memoryview]) -> Iterator[list[memoryview]]:
    """Yield the same bytes in portions that are encrypted and sent at once."""
    portion: list[memoryview] = []
    room = _MOST_ENCRYPTED
    for view in views:
        rest = view
        while len(rest) >= room:
            yield [*portion, rest[:room]]
            portion, rest, room = [], rest[room:], _MOST_ENCRYPTED
        portion.append(rest)
        room -= len(rest)
    if room < _MOST_ENCRYPTED:
        yield portion


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or str(error)).lower().replace('_', ' ')}"
    return (error.strerror or str(error)).lower()
