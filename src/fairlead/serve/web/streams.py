"""Non-blocking streams to clients: a step that must wait yields the events that it waits for."""

import socket
from collections.abc import Generator
from selectors import EVENT_READ, EVENT_WRITE
from typing import Protocol, TypeVar

Result = TypeVar("Result")
IoSteps = Generator[int, None, Result]
"""A generator that yields the selector events it waits for, and returns its result at the end."""


class ClientStream(Protocol):
    """A connection to one client; OSError ends it."""

    fault: str
    """The client's protocol error, whatever it requests; empty without one."""

    def fileno(self) -> int:
        """Return the descriptor to wait on; it never changes."""

    def handshake(self) -> IoSteps[None]:
        """Do the TLS handshake, where there is one."""

    def receive(self, limit: int) -> IoSteps[bytes]:
        """Return received bytes, at most `limit`; empty at the end of the stream."""

    def send(self, data: memoryview) -> IoSteps[int]:
        """Send bytes; return how many were accepted."""

    def shutdown(self) -> IoSteps[None]:
        """Signal the end of what is sent; bytes received afterwards are ignored."""

    def close(self) -> None:
        """Close the connection."""


class PlainStream:
    """A stream without TLS."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.fault = ""

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._sock.fileno()

    def handshake(self) -> IoSteps[None]:
        """Do nothing: there is no handshake."""
        yield from ()

    def receive(self, limit: int) -> IoSteps[bytes]:
        """Return received bytes; it yields first, so that an endless sender does not starve others."""
        yield EVENT_READ
        while True:
            try:
                return self._sock.recv(limit)
            except BlockingIOError:
                yield EVENT_READ

    def send(self, data: memoryview) -> IoSteps[int]:
        """Send bytes; return how many were accepted."""
        while True:
            try:
                return self._sock.send(data)
            except BlockingIOError:
                yield EVENT_WRITE

    def shutdown(self) -> IoSteps[None]:
        """Signal the end of what is sent."""
        yield from ()
        self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the connection."""
        self._sock.close()
