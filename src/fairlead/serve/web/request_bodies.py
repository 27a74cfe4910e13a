"""Bodies of requests: each bounded in size and time, and all of them together in memory.

A body that is being received may be dropped: where another needs room, the oldest unfinished one is. A sender
that is well finishes within milliseconds, so the oldest is one that stalls. A whole body stays until it was
answered.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from fairlead.serve.web.connections import ConnectionLimits, connection_of
from fairlead.serve.web.httpd import Response

BODY_LIMIT: Final = 4 << 20
"""Bytes: a pod is at most 1.5 MiB, and the names of 15,000 nodes take 1 MiB."""
RETRY_AFTER: Final = 1
"""Seconds."""


class RequestRejectedError(Exception):
    """A request that gets no further; carries its answer."""

    def __init__(self, status: int, text: bytes) -> None:
        self.response = Response(status, text)


class _Body:
    """A body that is being received."""

    def __init__(self, deadline: asyncio.Timeout) -> None:
        self.data = bytearray()
        self.dropped = False
        self._deadline = deadline

    def drop(self) -> None:
        """Give its memory back, and have its receiver stop."""
        self.data.clear()
        self.dropped = True
        if not self._deadline.expired():
            self._deadline.reschedule(asyncio.get_running_loop().time())


class RequestBodies:
    """The memory that bodies take in all."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._unfinished: dict[_Body, None] = {}
        """Oldest first."""
        self.held = 0
        """Bytes of all bodies, unfinished and whole."""

    @asynccontextmanager
    async def received(self, request: web.BaseRequest) -> AsyncIterator[bytes]:
        """Receive a body, and hold its memory as long as the context lasts."""
        body = await self._receive(request)
        try:
            yield body
        finally:
            self.held -= len(body)

    async def _receive(self, request: web.BaseRequest) -> bytes:
        if (request.content_length or 0) > BODY_LIMIT:
            raise _too_large()
        connection_of(request).receive()
        async with self._opened() as body:
            async for piece in request.content.iter_any():
                self._add(body, piece)
            whole = bytes(body.data)
        self.held += len(whole)
        connection_of(request).work()
        return whole

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[_Body]:
        """Yield a body to receive in time; its memory is given back at the end."""
        dropped = False
        try:
            async with asyncio.timeout(self._limits.body) as deadline:
                body = _Body(deadline)
                self._unfinished[body] = None
                try:
                    yield body
                finally:
                    dropped = body.dropped
                    self._close(body)
        except TimeoutError:
            raise _busy() if dropped else RequestRejectedError(408, b"the body came too slowly\n") from None
        except (ConnectionError, web.RequestPayloadError):
            raise RequestRejectedError(400, b"the body is not whole\n") from None

    def _add(self, body: _Body, piece: bytes) -> None:
        if body.dropped:
            raise _busy()
        if len(body.data) + len(piece) > BODY_LIMIT:
            raise _too_large()
        while self.held + len(piece) > self._limits.bodies:
            oldest = next(iter(self._unfinished))
            if oldest is body:
                raise _busy()
            self._close(oldest)
            oldest.drop()
        self.held += len(piece)
        body.data += piece

    def _close(self, body: _Body) -> None:
        """Take a body out of the unfinished ones."""
        if body in self._unfinished:
            del self._unfinished[body]
            self.held -= len(body.data)


def _busy() -> RequestRejectedError:
    return RequestRejectedError(503, b"too many requests are under way: ask again\n")


def _too_large() -> RequestRejectedError:
    return RequestRejectedError(413, f"the body is larger than {BODY_LIMIT >> 20} MiB\n".encode())
