"""One connection: a request with its answer, or a relay to another socket. Bounded in size and in time.

Neither ever blocks: a session does what it can when its sockets are ready, and returns what it waits for.
"""

import contextlib
import selectors
import socket
from collections.abc import Callable
from typing import Final, Protocol

REQUEST_LIMIT: Final = 256 * 1024
"""Bytes of a request."""
REQUEST_SECONDS: Final = 5.0
"""From the first byte of a request to the last of its answer."""
IDLE_SECONDS: Final = 300.0
"""After which an idle relay is closed; gRPC reconnects for its next call."""
_PIECE: Final = 64 * 1024

SocketEvents = dict[socket.socket, int]
"""The events that a session waits for on its sockets."""


class Session(Protocol):
    """A connection that the server's selector drives."""

    deadline: float

    def step(self, now: float) -> bool:
        """Do what is possible without blocking; False when the session is over."""

    def events_by_socket(self) -> SocketEvents:
        """Return the events to wait for, by socket."""

    def close(self) -> None:
        """Close every socket."""


class RequestSession:
    """Receives one line, and answers with one line."""

    def __init__(self, connection: socket.socket, answer: Callable[[bytes], bytes], now: float) -> None:
        self.deadline = now + REQUEST_SECONDS
        self._connection = connection
        self._answer = answer
        self._request = bytearray()
        self._rest: memoryview | None = None

    def step(self, now: float) -> bool:
        """Read the request, or write the answer."""
        try:
            return self._receive() if self._rest is None else self._send()
        except BlockingIOError:
            return True
        except OSError:
            return False

    def events_by_socket(self) -> SocketEvents:
        """Wait to read the request first, then to write the answer."""
        return {self._connection: selectors.EVENT_READ if self._rest is None else selectors.EVENT_WRITE}

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _receive(self) -> bool:
        piece = self._connection.recv(_PIECE)
        self._request += piece
        end = self._request.find(b"\n", len(self._request) - len(piece))
        if end >= 0 or len(self._request) > REQUEST_LIMIT:
            request = bytes(self._request[:end] if end >= 0 else self._request)
            self._request.clear()
            self._rest = memoryview(self._answer(request))
        return bool(piece)

    def _send(self) -> bool:
        assert self._rest is not None
        self._rest = self._rest[self._connection.send(self._rest) :]
        return bool(self._rest)


class _Pipe:
    """One direction of a relay: it reads no more until everything read is written."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.source = source
        self.sink = sink
        self.buffered = b""
        self.ended = False

    @property
    def done(self) -> bool:
        """Whether the source has ended and all of it is written."""
        return self.ended and not self.buffered

    def move(self) -> bool:
        """Move the bytes that can be moved without blocking, and say whether any were."""
        moved = False
        with contextlib.suppress(BlockingIOError):
            if not self.buffered and not self.ended:
                self.buffered = self.source.recv(_PIECE)
                self.ended = not self.buffered
                moved = True
        with contextlib.suppress(BlockingIOError):
            if self.buffered:
                self.buffered = self.buffered[self.sink.send(self.buffered) :]
                moved = True
        return moved


class RelaySession:
    """Relays bytes both ways between a client and a server."""

    def __init__(self, client: socket.socket, server: socket.socket, now: float) -> None:
        self.deadline = now + IDLE_SECONDS
        self._up = _Pipe(client, server)
        self._down = _Pipe(server, client)
        self._shutdown_sent = False

    def step(self, now: float) -> bool:
        """Move received bytes; when the server ends, so does the relay."""
        try:
            up, down = self._up.move(), self._down.move()
            if self._up.done and not self._shutdown_sent:
                self._shutdown_sent = True
                self._up.sink.shutdown(socket.SHUT_WR)
        except OSError:
            return False
        if up or down:
            self.deadline = now + IDLE_SECONDS
        return not self._down.done

    def events_by_socket(self) -> SocketEvents:
        """Wait to read where nothing is buffered, and to write where bytes are."""
        events_by_socket = {self._up.source: 0, self._up.sink: 0}
        for pipe in (self._up, self._down):
            if pipe.buffered:
                events_by_socket[pipe.sink] |= selectors.EVENT_WRITE
            elif not pipe.ended:
                events_by_socket[pipe.source] |= selectors.EVENT_READ
        return events_by_socket

    def close(self) -> None:
        """Close both connections."""
        self._up.source.close()
        self._up.sink.close()
