"""Send requests and stream answers over kept connections, as who we are, again where that is right."""

import asyncio
import os
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from ssl import SSLContext
from typing import Final, TypeVar
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from fairlead.cluster.config import tls
from fairlead.cluster.config.auth import Credential, make_identity
from fairlead.cluster.config.proxy import find_proxy, is_loopback
from fairlead.cluster.config.types import ClusterConfig
from fairlead.cluster.http import retry
from fairlead.cluster.http.api_errors import RequestInfo, error_from_status
from fairlead.cluster.http.codec import decode_status
from fairlead.cluster.http.connection_errors import connection_error, was_disconnected
from fairlead.cluster.http.lines import LineSplitter
from fairlead.cluster.http.request import HttpRequest, headers
from fairlead.cluster.http.retry import RetryPolicy, RetryState
from fairlead.cluster.http.sockets import SocketTracker
from fairlead.cluster.meta import Status
from fairlead.errors import ClusterError

CONNECT_TIMEOUT: Final = 10.0
READ_TIMEOUT: Final = 70.0
"""Seconds without a byte after which an answer is given up; the server itself gives up after 60."""
KEEPALIVE: Final = 30.0
"""Seconds that an idle connection is kept; balancers on the way drop them from 60 on, without a word."""
_BUFFER: Final = 1 << 20
_FIRST: Final = RetryState()
_TEXT_LIMIT: Final = 300
_BUDGET: Final = "DisruptionBudget"
"""The cause of a 429 by which the API server refuses an eviction."""
R = TypeVar("R")
Taker = Callable[[aiohttp.ClientResponse], Awaitable[R]]


@dataclass(frozen=True, slots=True)
class ClientEnvironment:
    """What is outside: tests bring their own."""

    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    dice: Random = field(default_factory=Random)


class LineBatches:
    """The lines of a streamed answer, as many at a time as have arrived."""

    def __init__(self, response: aiohttp.ClientResponse, asked: RequestInfo, config: ClusterConfig) -> None:
        self._chunks = response.content
        self._lines = LineSplitter()
        self._asked = asked
        self._config = config

    def __aiter__(self) -> "LineBatches":
        return self

    async def __anext__(self) -> list[bytes]:
        while True:
            try:
                chunk = await self._chunks.readany()
            except (aiohttp.ClientError, OSError) as error:
                raise connection_error(error, self._asked, self._config) from error
            if not chunk:
                if self._lines.incomplete:
                    raise connection_error(
                        ConnectionError("it ended within a line"), self._asked, self._config
                    )
                raise StopAsyncIteration
            if lines := self._lines.feed(chunk):
                return lines


class Transport:
    """Kept connections to one server."""

    def __init__(
        self,
        config: ClusterConfig,
        session: aiohttp.ClientSession,
        slots: int,
        patience: RetryPolicy,
        world: ClientEnvironment,
        read_timeout: float = READ_TIMEOUT,
    ) -> None:
        self.config = config
        self._short = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=read_timeout)
        self._session = session
        self._slots = asyncio.Semaphore(slots)
        self._patience = patience
        self._dice = world.dice
        self._who = make_identity(config, world.env, world.wall, world.monotonic)
        self._proxy = find_proxy(config, world.env)
        self._base = config.server.rstrip("/")
        self._shown = Credential()
        self._tls: SSLContext | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        config: ClusterConfig,
        *,
        connections: int = 64,
        compress: bool | None = None,
        patience: RetryPolicy | None = None,
        world: ClientEnvironment | None = None,
        read_timeout: float | None = None,
    ) -> AsyncIterator["Transport"]:
        """Prepare connections; none is made yet."""
        near = is_loopback(urlsplit(config.server).hostname or "")
        sockets = SocketTracker()
        try:
            async with aiohttp.ClientSession(
                # The slots are the limit, and watches take none.
                connector=aiohttp.TCPConnector(
                    limit=0, keepalive_timeout=KEEPALIVE, socket_factory=sockets.make
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=headers(config.impersonate, gzip=not near if compress is None else compress),
                auto_decompress=False,  # in one go below; the library would take many small steps
                read_bufsize=_BUFFER,
            ) as session:
                yield cls(
                    config,
                    session,
                    connections,
                    patience or RetryPolicy(),
                    world or ClientEnvironment(),
                    read_timeout or READ_TIMEOUT,
                )
        finally:
            await sockets.end()

    async def send(self, request: HttpRequest, asked: RequestInfo) -> bytes:
        """Return the answer's body; every answer that is not a success is an error of ours."""
        async with self._slots:
            return await self._ask(request, asked, self._short, _body)

    @asynccontextmanager
    async def stream(
        self, request: HttpRequest, asked: RequestInfo, idle: float
    ) -> AsyncIterator[LineBatches]:
        """Open an answer that goes on and on; read_timeout for `idle` seconds breaks it."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=idle)
        response = await self._ask(request, asked, timeout, _itself)
        try:
            yield LineBatches(response, asked, self.config)
        finally:
            if response.connection and response.connection.transport:
                # A polite end would wait for the server's, which a half-open connection never brings.
                response.connection.transport.abort()
            response.close()

    async def _ask(
        self, request: HttpRequest, asked: RequestInfo, timeout: aiohttp.ClientTimeout, take: Taker[R]
    ) -> R:
        tried, believed = _FIRST, True
        while True:
            used = await self._who.current()
            try:
                response = await self._once(request, used, timeout)
                if response.status < 300:
                    return await take(response)
                error, pause = await self._refusal(response, asked, tried)
                if response.status == 401 and believed and self._who.invalidate(used):
                    believed, pause = False, 0.0
            except (aiohttp.ClientError, OSError) as problem:
                error = connection_error(problem, asked, self.config)
                pause = (
                    retry.delay_after_disconnect(request.method, tried, self._dice)
                    if was_disconnected(problem)
                    else None
                )
                error.__cause__ = problem
            if pause is None:
                raise error
            await asyncio.sleep(pause)
            tried = RetryState(tried.times + 1, tried.waited + pause)

    async def _once(
        self, request: HttpRequest, who: Credential, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        headers = {"Content-Type": request.content_type} if request.body is not None else {}
        if request.live:
            headers["Accept-Encoding"] = "identity"  # a compressed stream comes in blocks, and late
        if who.token:
            headers["Authorization"] = f"Bearer {who.token}"
        return await self._session.request(
            request.method,
            URL(self._base + request.target, encoded=True),
            data=request.body,
            headers=headers,
            allow_redirects=False,
            proxy=self._proxy,
            timeout=timeout,
            ssl=self._secured(who),
            server_hostname=self.config.server_name or None,
            middlewares=_ONCE if request.method in _RESENT else None,
        )

    async def _refusal(
        self, response: aiohttp.ClientResponse, asked: RequestInfo, tried: RetryState
    ) -> tuple[ClusterError, float | None]:
        body = await _body(response)
        text = body[:_TEXT_LIMIT].decode("utf-8", "replace")
        status = decode_status(body) or Status(message=f"{response.status} {response.reason}: {text}")
        wait = retry.parse_retry_after(response.headers.get("Retry-After"))
        pause = retry.delay_after_response(response.status, wait, tried, self._patience, self._dice)
        if any(cause.reason == _BUDGET for cause in status.details.causes):
            pause = (
                None  # a disruption budget says no to an eviction: that is an answer, not a request to wait
            )
        return error_from_status(response.status, status, asked, self.config), pause

    def _secured(self, who: Credential) -> SSLContext | bool:
        """Return the TLS context that shows this credential; one context, one set of connections."""
        if self._tls is None or (who.certificate, who.key) != (self._shown.certificate, self._shown.key):
            if not self._base.startswith("https:"):
                return True
            self._tls, self._shown = tls.create_context(self.config, who.certificate, who.key), who
        return self._tls


class _BrokenWriteError(aiohttp.ClientConnectionError):
    """A connection that broke under a write, in a form that the library does not send again."""


async def _send_once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _BrokenWriteError(str(error)) from error


_RESENT: Final = frozenset({"PUT", "DELETE"})
"""Methods that aiohttp sends a second time when the connection breaks: HTTP calls them idempotent, but a
conditional one that was carried out the first time fails the second."""
_ONCE: Final = (_send_once,)


async def _itself(response: aiohttp.ClientResponse) -> aiohttp.ClientResponse:
    return response


async def _body(response: aiohttp.ClientResponse) -> bytes:
    """Read all of an answer and give its connection back."""
    async with response:
        data = await response.read()
    if response.headers.get("Content-Encoding") == "gzip":
        try:
            return zlib.decompress(data, wbits=31)
        except zlib.error as error:
            raise aiohttp.ClientPayloadError(f"not gzip, as it says: {error}") from None
    return data
