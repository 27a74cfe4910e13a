"""An HTTP server for requests with bodies: bounded in size and time, with optional client certificates."""

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
"""Seconds that requests in flight have when the program ends."""
_LINGER: Final = 1.0
"""Seconds for which the rest of a refused body is still read, so that its sender reads the answer."""
PROBES: Final = frozenset({"/healthz", "/readyz"})
"""Paths of a kubelet's probes: it has no certificate, and their answer is only yes or no."""
_NO_PATHS: Final[Mapping[str, bytes]] = {}

Verb = Callable[[bytes], Awaitable[Response]]
"""Returns the response to a body."""
Page = Callable[[], Response]


class Router:
    """Routes requests by path."""

    def __init__(
        self,
        verbs: Mapping[str, Verb],
        pages: Mapping[str, Page],
        *,
        require_certificate: bool,
        limits: ConnectionLimits | None = None,
        unsupported: Mapping[str, bytes] = _NO_PATHS,
    ) -> None:
        self.limits = limits or ConnectionLimits()
        self.bodies = RequestBodies(self.limits)
        self._verbs = verbs
        self._pages = pages
        self._require_certificate = require_certificate
        """Whether requests need a client certificate; probes never do."""
        self._unsupported = unsupported
        """Paths that a client may expect but this server does not have, each with the text of its 404."""

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Answer a request."""
        more = {}
        connection_of(request).begin_work()
        try:
            response = await self._answer(request)
        except RequestRejectedError as refused:
            response = refused.response
            if response.status == 405:
                more = {"Allow": "POST" if request.path in self._verbs else "GET, HEAD"}
            elif response.status == 503:
                more = {"Retry-After": str(RETRY_AFTER)}
        headers = {"Content-Type": response.content_type, **more}
        return web.Response(status=response.status, body=response.body, headers=headers)

    async def _answer(self, request: web.BaseRequest) -> Response:
        if self._require_certificate and request.path not in PROBES and not _has_certificate(request):
            raise RequestRejectedError(401, b"a client certificate is required\n")
        if request.path in self._unsupported:
            raise RequestRejectedError(404, self._unsupported[request.path])
        verb, page = self._verbs.get(request.path), self._pages.get(request.path)
        if verb is not None:
            if request.method != "POST":
                raise RequestRejectedError(405, b"only POST\n")
            async with self.bodies.received(request) as body:
                return await verb(body)
        if page is None:
            raise RequestRejectedError(404, f"no such path; the paths are {self._paths()}\n".encode())
        if request.method not in ("GET", "HEAD"):
            raise RequestRejectedError(405, b"only GET and HEAD\n")
        return page()

    def _paths(self) -> str:
        return ", ".join([*self._verbs, *self._pages])


def _has_certificate(request: web.BaseRequest) -> bool:
    transport = request.transport
    return transport is not None and bool(transport.get_extra_info("peercert"))


@asynccontextmanager
async def open_server(
    listener: socket.socket, router: Router, tls: ssl.SSLContext | None
) -> AsyncIterator[ConnectionPool]:
    """Serve requests as long as the context lasts; requests in flight are answered before it ends."""
    options = {
        "access_log": None,
        "keepalive_timeout": router.limits.idle,
        "lingering_time": _LINGER,
        "auto_decompress": False,  # kube-scheduler compresses no body, and a small one could expand hugely
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
        await connections.close()
