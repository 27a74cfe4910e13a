"""The sockets of a client's connections, closed with the client.

A closing TLS connection waits for the server's close_notify, half a minute if none comes. aiohttp does not
wait for it when a session closes, so a loop that ends first leaves the connection to the garbage collector.
"""

import asyncio
import socket
from contextlib import suppress
from typing import Any, Final
from weakref import WeakSet

_LOOP_TURNS: Final = 100
"""Turns of the event loop until the transports close: two or three suffice, and no peer is involved."""


class SocketTracker:
    """Creates sockets, and shuts down those that are still open."""

    def __init__(self) -> None:
        self._sockets: WeakSet[socket.socket] = WeakSet()

    def create(self, address: tuple[Any, ...]) -> socket.socket:
        """Create a socket for an address, as getaddrinfo describes it."""
        family, kind, protocol, *_ = address
        created = socket.socket(family, kind, protocol)
        self._sockets.add(created)
        return created

    async def close_all(self) -> None:
        """Shut down the sockets that are still open; their transports see the end and close."""
        for open_socket in list(self._sockets):
            with suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)
        for _ in range(_LOOP_TURNS):
            if all(closing.fileno() < 0 for closing in list(self._sockets)):
                return
            await asyncio.sleep(0)
