"""A server whose clients send bodies: bounded in size and time, and client certificates where wanted."""

import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from fairlead.serve.web.connections import ConnectionLimits, ConnectionPool, connection_of
from fairlead.serve.web.httpd import Response
from fairlead.serve.web.request_bodies import RETRY_AFTER, RequestBodies, RequestRejectedError

_LAST: Final = 5.0
"""Seconds that answers under way have when the program ends."""
_LINGER: Final = 1.0
"""Seconds for which the rest of a body that was refused is taken, so that its sender reads the answer."""
PROBES: Final = frozenset({"/healthz", "/readyz"})
"""What a kubelet asks for: it has no certificate, and learns nothing but yes or no."""
_NO_PATHS: Final[Mapping[str, bytes]] = {}

Verb = Callable[[bytes], Awaitable[Response]]
"""What answers a body."""
Page = Callable[[], Response]


class Router:
    """Leads requests to what answers them."""

    def __init__(
        self,
        verbs: Mapping[str, Verb],
        pages: Mapping[str, Page],
        *,
        known_only: bool,
        limits: ConnectionLimits | None = None,
        absent: Mapping[str, bytes] = _NO_PATHS,
    ) -> None:
        self.limits = limits or ConnectionLimits()
        self.bodies = RequestBodies(self.limits)
        self._verbs = verbs
        self._pages = pages
        self._known_only = known_only
        """Whether only who shows a certificate is answered; probes always are."""
        self._absent = absent
        """Paths that a client may expect, and what it is to do without them."""

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Answer a request."""
        more = {}
        connection_of(request).work()
        try:
            found = await self._answer(request)
        except RequestRejectedError as refused:
            found = refused.response
            if found.status == 405:
                more = {"Allow": "POST" if request.path in self._verbs else "GET, HEAD"}
            elif found.status == 503:
                more = {"Retry-After": str(RETRY_AFTER)}
        headers = {"Content-Type": found.content_type, **more}
        return web.Response(status=found.status, body=found.body, headers=headers)

    async def _answer(self, request: web.BaseRequest) -> Response:
        if self._known_only and request.path not in PROBES and not _shows_certificate(request):
            raise RequestRejectedError(401, b"show a client certificate\n")
        if request.path in self._absent:
            raise RequestRejectedError(404, self._absent[request.path])
        verb, page = self._verbs.get(request.path), self._pages.get(request.path)
        if verb is not None:
            if request.method != "POST":
                raise RequestRejectedError(405, b"only POST\n")
            async with self.bodies.received(request) as body:
                return await verb(body)
        if page is None:
            raise RequestRejectedError(404, f"no such path; there is {self._known()}\n".encode())
        if request.method not in ("GET", "HEAD"):
            raise RequestRejectedError(405, b"only GET and HEAD\n")
        return page()

    def _known(self) -> str:
        return ", ".join([*self._verbs, *self._pages])


def _shows_certificate(request: web.BaseRequest) -> bool:
    transport = request.transport
    return transport is not None and bool(transport.get_extra_info("peercert"))


@asynccontextmanager
async def open_server(
    listener: socket.socket, router: Router, tls: ssl.SSLContext | None
) -> AsyncIterator[ConnectionPool]:
    """Answer requests as long as the context lasts; those under way are answered before it ends."""
    options = {
        "access_log": None,
        "keepalive_timeout": router.limits.idle,
        "lingering_time": _LINGER,
        "auto_decompress": False,  # kube-scheduler packs no body, and a small one could unpack to a huge one
    }
    server = web.Server(router.answer)
    runner = web.ServerRunner(server, shutdown_timeout=_LAST)
    await runner.setup()
    connections = ConnectionPool(server, options, tls, router.limits)
    try:
        async with connections.accepting(listener):
            yield connections
    finally:
        await runner.cleanup()
