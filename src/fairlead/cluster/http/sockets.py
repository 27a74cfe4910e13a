"""The sockets of a client's connections, so that none outlives the client.

A TLS connection that is closed waits for the server's farewell, half a minute if none comes. aiohttp does not
wait for that when it closes, and a loop that ends meanwhile leaves the connection to the garbage collector.
"""

import asyncio
import socket
from contextlib import suppress
from typing import Any, Final
from weakref import WeakSet

_TURNS: Final = 100
"""Of the loop, until what was shut down here is closed there: two or three, and no peer is waited for."""


class SocketTracker:
    """Makes sockets, and ends those that are left."""

    def __init__(self) -> None:
        self._made: WeakSet[socket.socket] = WeakSet()

    def make(self, address: tuple[Any, ...]) -> socket.socket:
        """Return a socket for an address, as getaddrinfo describes it."""
        family, kind, protocol, *_ = address
        made = socket.socket(family, kind, protocol)
        self._made.add(made)
        return made

    async def end(self) -> None:
        """Shut down what is still open; its transport sees the end and closes."""
        for each in list(self._made):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for _ in range(_TURNS):
            if all(each.fileno() < 0 for each in list(self._made)):
                return
            await asyncio.sleep(0)
