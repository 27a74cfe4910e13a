"""Bodies of requests: each bounded in size and time, and all of them together in memory.

A body that is being received may be dropped: where another needs memory, the oldest unfinished one is. A
healthy sender finishes within milliseconds, so the oldest is one that stalls. A complete body stays until it
is answered.
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
    """A rejected request; carries its response."""

    def __init__(self, status: int, text: bytes) -> None:
        self.response = Response(status, text)


class _Body:
    """A body that is being received."""

    def __init__(self, deadline: asyncio.Timeout) -> None:
        self.data = bytearray()
        self.dropped = False
        self._deadline = deadline

    def drop(self) -> None:
        """Free its memory, and stop its receiver."""
        self.data.clear()
        self.dropped = True
        if not self._deadline.expired():
            self._deadline.reschedule(asyncio.get_running_loop().time())


class RequestBodies:
    """Receives bodies, and bounds the memory of all of them."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._unfinished: dict[_Body, None] = {}
        """Oldest first."""
        self.held = 0
        """Bytes of all bodies, unfinished and complete."""

    @asynccontextmanager
    async def received(self, request: web.BaseRequest) -> AsyncIterator[bytes]:
        """Receive a body, and account for its memory as long as the context lasts."""
        body = await self._receive(request)
        try:
            yield body
        finally:
            self.held -= len(body)

    async def _receive(self, request: web.BaseRequest) -> bytes:
        if (request.content_length or 0) > BODY_LIMIT:
            raise _too_large()
        connection_of(request).begin_body()
        async with self._unfinished_body() as body:
            async for piece in request.content.iter_any():
                self._add(body, piece)
            complete = bytes(body.data)
        self.held += len(complete)
        connection_of(request).begin_work()
        return complete

    @asynccontextmanager
    async def _unfinished_body(self) -> AsyncIterator[_Body]:
        """Yield a body to receive within the time limit; its memory is freed at the end."""
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
            raise RequestRejectedError(400, b"the body is incomplete\n") from None

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
        """Remove a body from the unfinished ones."""
        if body in self._unfinished:
            del self._unfinished[body]
            self.held -= len(body.data)


def _busy() -> RequestRejectedError:
    return RequestRejectedError(503, b"too many requests are in flight: try again\n")


def _too_large() -> RequestRejectedError:
    return RequestRejectedError(413, f"the body is larger than {BODY_LIMIT >> 20} MiB\n".encode())
