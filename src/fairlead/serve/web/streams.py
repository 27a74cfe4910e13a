"""Lines to clients that never block: whoever would have to wait says for what, and is called again then."""

import socket
from collections.abc import Generator
from selectors import EVENT_READ, EVENT_WRITE
from typing import Protocol, TypeVar

Result = TypeVar("Result")
IoSteps = Generator[int, None, Result]
"""Work in pieces: it yields the selector's events that it waits for, and returns its result in the end."""


class ClientStream(Protocol):
    """A connection to one client; OSError ends it."""

    fault: str
    """What is wrong with the way the client speaks, whatever it asks; empty when nothing is."""

    def fileno(self) -> int:
        """Return what to wait on; it stays the same."""

    def handshake(self) -> IoSteps[None]:
        """Agree with the client on how to speak."""

    def receive(self, limit: int) -> IoSteps[bytes]:
        """Return what came, at most `limit` bytes; nothing when the client is done."""

    def send(self, data: memoryview) -> IoSteps[int]:
        """Return how many bytes the client took."""

    def shutdown(self) -> IoSteps[None]:
        """Say that nothing more will be sent; what comes afterwards has no meaning."""

    def close(self) -> None:
        """End it."""


class PlainStream:
    """A line without any secret."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.fault = ""

    def fileno(self) -> int:
        """Return what to wait on."""
        return self._sock.fileno()

    def handshake(self) -> IoSteps[None]:
        """There is nothing to agree on."""
        yield from ()

    def receive(self, limit: int) -> IoSteps[bytes]:
        """Return what came; waits first, so that a client that never stops talking lets others in."""
        yield EVENT_READ
        while True:
            try:
                return self._sock.recv(limit)
            except BlockingIOError:
                yield EVENT_READ

    def send(self, data: memoryview) -> IoSteps[int]:
        """Return how many bytes the client took."""
        while True:
            try:
                return self._sock.send(data)
            except BlockingIOError:
                yield EVENT_WRITE

    def shutdown(self) -> IoSteps[None]:
        """Say that nothing more will be sent."""
        yield from ()
        self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """End it."""
        self._sock.close()
