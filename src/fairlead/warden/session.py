"""One connection: a question with its answer, or a relay to another socket. Bounded in size and in time.

Neither ever blocks: a session does what it can when its sockets are ready, and says what it waits for.
"""

import contextlib
import selectors
import socket
from collections.abc import Callable
from typing import Final, Protocol

from fairlead.warden.protocol import REQUEST_LIMIT

REQUEST_SECONDS: Final = 5.0
"""From the first byte of a question to the last of its answer."""
IDLE_SECONDS: Final = 300.0
"""After which a relay that carries nothing is closed; gRPC connects anew when it has something to say."""
_PIECE: Final = 64 * 1024

Wants = dict[socket.socket, int]
"""The events that a session waits for on its sockets."""


class Session(Protocol):
    """A connection that somebody else's selector drives."""

    deadline: float

    def step(self, now: float) -> bool:
        """Do what can be done at once; False when the session is over."""

    def wants(self) -> Wants:
        """Return what to wait for."""

    def close(self) -> None:
        """Close every socket."""


class RequestSession:
    """A line comes, a line goes."""

    def __init__(self, line: socket.socket, answer: Callable[[bytes], bytes], now: float) -> None:
        self.deadline = now + REQUEST_SECONDS
        self._line = line
        self._answer = answer
        self._request = bytearray()
        self._rest: memoryview | None = None

    def step(self, now: float) -> bool:
        """Read the question, or write the answer."""
        try:
            return self._receive() if self._rest is None else self._send()
        except BlockingIOError:
            return True
        except OSError:
            return False

    def wants(self) -> Wants:
        """Wait for the question first, then for room for the answer."""
        return {self._line: selectors.EVENT_READ if self._rest is None else selectors.EVENT_WRITE}

    def close(self) -> None:
        """Hang up."""
        self._line.close()

    def _receive(self) -> bool:
        piece = self._line.recv(_PIECE)
        self._request += piece
        end = self._request.find(b"\n", len(self._request) - len(piece))
        if end >= 0 or len(self._request) > REQUEST_LIMIT:
            asked = bytes(self._request[:end] if end >= 0 else self._request)
            self._request.clear()
            self._rest = memoryview(self._answer(asked))
        return bool(piece)

    def _send(self) -> bool:
        assert self._rest is not None
        self._rest = self._rest[self._line.send(self._rest) :]
        return bool(self._rest)


class _Pipe:
    """One direction of a relay: nothing more is read until what was read is written."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.source = source
        self.sink = sink
        self.waiting = b""
        self.ended = False

    @property
    def done(self) -> bool:
        """Whether the source has ended and all of it is through."""
        return self.ended and not self.waiting

    def move(self) -> bool:
        """Carry what can be carried at once, and say whether anything was."""
        moved = False
        with contextlib.suppress(BlockingIOError):
            if not self.waiting and not self.ended:
                self.waiting = self.source.recv(_PIECE)
                self.ended = not self.waiting
                moved = True
        with contextlib.suppress(BlockingIOError):
            if self.waiting:
                self.waiting = self.waiting[self.sink.send(self.waiting) :]
                moved = True
        return moved


class RelaySession:
    """Bytes both ways between a client and a server."""

    def __init__(self, client: socket.socket, server: socket.socket, now: float) -> None:
        self.deadline = now + IDLE_SECONDS
        self._up = _Pipe(client, server)
        self._down = _Pipe(server, client)
        self._told = False

    def step(self, now: float) -> bool:
        """Carry what came; when the server ends, so does the relay."""
        try:
            up, down = self._up.move(), self._down.move()
            if self._up.done and not self._told:
                self._told = True
                self._up.sink.shutdown(socket.SHUT_WR)
        except OSError:
            return False
        if up or down:
            self.deadline = now + IDLE_SECONDS
        return not self._down.done

    def wants(self) -> Wants:
        """Wait for bytes where there is room for them, and for room where there are bytes."""
        wants = {self._up.source: 0, self._up.sink: 0}
        for pipe in (self._up, self._down):
            if pipe.waiting:
                wants[pipe.sink] |= selectors.EVENT_WRITE
            elif not pipe.ended:
                wants[pipe.source] |= selectors.EVENT_READ
        return wants

    def close(self) -> None:
        """Hang up on both."""
        self._up.source.close()
        self._up.sink.close()
