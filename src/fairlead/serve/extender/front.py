"""The extender's door: HTTP, bodies bounded in size and time, and client certificates where wanted."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from fairlead.serve.web.httpd import Response

BODY_LIMIT: Final = 4 << 20
"""Bytes: a pod is at most 1.5 MiB, and the names of 15,000 nodes take 1 MiB."""
BODY_TIME: Final = 10.0
"""Seconds in which a body must have come."""
_LAST: Final = 5.0
"""Seconds that answers under way have when the program ends."""
_IDLE: Final = 120.0
"""Seconds after which an idle connection is closed: kube-scheduler does so after 90, and a request that meets
a closed one would fail."""
_LINGER: Final = 1.0
"""Seconds for which the rest of a body that was refused is taken, so that its sender reads the answer."""
PROBES: Final = frozenset({"/healthz", "/readyz"})
"""What a kubelet asks for: it has no certificate, and learns nothing but yes or no."""
_NO_BINDING: Final = (
    b"this extender never binds: leave bindVerb out of the KubeSchedulerConfiguration, and kube-scheduler "
    b"binds itself\n"
)

Verb = Callable[[bytes], Awaitable[Response]]
"""What answers a body."""
Page = Callable[[], Response]


class _RefusedError(Exception):
    """A request that gets no further; carries its answer."""

    def __init__(self, status: int, text: bytes) -> None:
        self.response = Response(status, text)


class Front:
    """Leads requests to what answers them."""

    def __init__(self, verbs: Mapping[str, Verb], pages: Mapping[str, Page], *, known_only: bool) -> None:
        self._verbs = verbs
        self._pages = pages
        self._known_only = known_only
        """Whether only who shows a certificate is answered; probes always are."""

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Answer a request."""
        more = {}
        try:
            found = await self._answer(request)
        except _RefusedError as refused:
            found = refused.response
            if found.status == 405:
                more = {"Allow": "POST" if request.path in self._verbs else "GET, HEAD"}
        headers = {"Content-Type": found.content_type, **more}
        return web.Response(status=found.status, body=found.body, headers=headers)

    async def _answer(self, request: web.BaseRequest) -> Response:
        if self._known_only and request.path not in PROBES and not _shows_certificate(request):
            raise _RefusedError(401, b"show a client certificate\n")
        if request.path == "/bind":
            raise _RefusedError(404, _NO_BINDING)
        verb, page = self._verbs.get(request.path), self._pages.get(request.path)
        if verb is not None:
            if request.method != "POST":
                raise _RefusedError(405, b"only POST\n")
            return await verb(await _body(request))
        if page is None:
            raise _RefusedError(404, f"no such path; there is {self._known()}\n".encode())
        if request.method not in ("GET", "HEAD"):
            raise _RefusedError(405, b"only GET and HEAD\n")
        return page()

    def _known(self) -> str:
        return ", ".join([*self._verbs, *self._pages])


async def _body(request: web.BaseRequest) -> bytes:
    """Return a request's body; too much of it, or too slowly, is refused."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIME):
            if (request.content_length or 0) <= BODY_LIMIT:
                async for piece in request.content.iter_any():
                    body += piece
                    if len(body) > BODY_LIMIT:
                        break
                else:
                    return bytes(body)
    except TimeoutError:
        raise _RefusedError(408, b"the body came too slowly\n") from None
    raise _RefusedError(413, f"the body is larger than {BODY_LIMIT >> 20} MiB\n".encode())


def _shows_certificate(request: web.BaseRequest) -> bool:
    transport = request.transport
    return transport is not None and bool(transport.get_extra_info("peercert"))


@asynccontextmanager
async def opened(listener: socket.socket, front: Front, tls: ssl.SSLContext | None) -> AsyncIterator[None]:
    """Answer requests as long as the context lasts; those under way are answered before it ends."""
    server = web.Server(front.answer, access_log=None, keepalive_timeout=_IDLE, lingering_time=_LINGER)
    runner = web.ServerRunner(server, shutdown_timeout=_LAST)
    await runner.setup()
    try:
        await web.SockSite(runner, listener, ssl_context=tls).start()
        yield
    finally:
        await runner.cleanup()
