"""Send requests and stream responses over pooled connections, with credentials and safe retries."""

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
"""Seconds without a byte after which a response fails; the server itself gives up after 60."""
KEEPALIVE: Final = 30.0
"""Seconds that an idle connection is kept; load balancers silently drop idle ones from 60 on."""
_BUFFER_SIZE: Final = 1 << 20
_FIRST: Final = RetryState()
_TEXT_LIMIT: Final = 300
_DISRUPTION_BUDGET: Final = "DisruptionBudget"
"""The cause of a 429 by which the API server refuses an eviction."""
R = TypeVar("R")
ResponseReader = Callable[[aiohttp.ClientResponse], Awaitable[R]]


@dataclass(frozen=True, slots=True)
class ClientEnvironment:
    """The environment, clocks and random source; tests bring their own."""

    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    random: Random = field(default_factory=Random)


class LineBatches:
    """The lines of a streamed response, as many at a time as have arrived."""

    def __init__(self, response: aiohttp.ClientResponse, info: RequestInfo, config: ClusterConfig) -> None:
        self._chunks = response.content
        self._lines = LineSplitter()
        self._info = info
        self._config = config

    def __aiter__(self) -> "LineBatches":
        return self

    async def __anext__(self) -> list[bytes]:
        while True:
            try:
                chunk = await self._chunks.readany()
            except (aiohttp.ClientError, OSError) as error:
                raise connection_error(error, self._info, self._config) from error
            if not chunk:
                if self._lines.incomplete:
                    raise connection_error(
                        ConnectionError("it ended in the middle of a line"), self._info, self._config
                    )
                raise StopAsyncIteration
            if lines := self._lines.feed(chunk):
                return lines


class Transport:
    """Pooled connections to one server."""

    def __init__(
        self,
        config: ClusterConfig,
        session: aiohttp.ClientSession,
        slots: int,
        policy: RetryPolicy,
        environment: ClientEnvironment,
        read_timeout: float = READ_TIMEOUT,
    ) -> None:
        self.config = config
        self._short = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=read_timeout)
        self._session = session
        self._slots = asyncio.Semaphore(slots)
        self._policy = policy
        self._random = environment.random
        self._identity = make_identity(config, environment.env, environment.wall, environment.monotonic)
        self._proxy = find_proxy(config, environment.env)
        self._base = config.server.rstrip("/")
        self._presented = Credential()
        self._tls: SSLContext | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        config: ClusterConfig,
        *,
        connections: int = 64,
        compress: bool | None = None,
        policy: RetryPolicy | None = None,
        environment: ClientEnvironment | None = None,
        read_timeout: float | None = None,
    ) -> AsyncIterator["Transport"]:
        """Prepare a connection pool; connections are opened with requests."""
        local = is_loopback(urlsplit(config.server).hostname or "")
        sockets = SocketTracker()
        try:
            async with aiohttp.ClientSession(
                # The semaphore is the limit, and watches do not take it.
                connector=aiohttp.TCPConnector(
                    limit=0, keepalive_timeout=KEEPALIVE, socket_factory=sockets.create
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=headers(config.impersonate, gzip=not local if compress is None else compress),
                auto_decompress=False,  # decompressed in one go below; the library takes many small steps
                read_bufsize=_BUFFER_SIZE,
            ) as session:
                yield cls(
                    config,
                    session,
                    connections,
                    policy or RetryPolicy(),
                    environment or ClientEnvironment(),
                    read_timeout or READ_TIMEOUT,
                )
        finally:
            await sockets.close_all()

    async def send(self, request: HttpRequest, info: RequestInfo) -> bytes:
        """Return the body of the response; raise a ClusterError for every response but a success."""
        async with self._slots:
            return await self._send(request, info, self._short, _body)

    @asynccontextmanager
    async def stream(
        self, request: HttpRequest, info: RequestInfo, idle: float
    ) -> AsyncIterator[LineBatches]:
        """Open a streamed response; it breaks after `idle` seconds without a byte."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=idle)
        response = await self._send(request, info, timeout, _whole_response)
        try:
            yield LineBatches(response, info, self.config)
        finally:
            if response.connection and response.connection.transport:
                # A clean close waits for the server's, which a half-open connection never brings.
                response.connection.transport.abort()
            response.close()

    async def _send(
        self, request: HttpRequest, info: RequestInfo, timeout: aiohttp.ClientTimeout, read: ResponseReader[R]
    ) -> R:
        state, may_renew = _FIRST, True
        while True:
            credential = await self._identity.current()
            try:
                response = await self._send_once(request, credential, timeout)
                if response.status < 300:
                    return await read(response)
                error, delay = await self._error_and_delay(response, info, state)
                if response.status == 401 and may_renew and self._identity.invalidate(credential):
                    may_renew, delay = False, 0.0
            except (aiohttp.ClientError, OSError) as problem:
                error = connection_error(problem, info, self.config)
                delay = (
                    retry.delay_after_disconnect(request.method, state, self._random)
                    if was_disconnected(problem)
                    else None
                )
                error.__cause__ = problem
            if delay is None:
                raise error
            await asyncio.sleep(delay)
            state = RetryState(state.attempts + 1, state.waited + delay)

    async def _send_once(
        self, request: HttpRequest, credential: Credential, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        headers = {"Content-Type": request.content_type} if request.body is not None else {}
        if request.live:
            headers["Accept-Encoding"] = "identity"  # a compressed stream arrives in blocks, and late
        if credential.token:
            headers["Authorization"] = f"Bearer {credential.token}"
        return await self._session.request(
            request.method,
            URL(self._base + request.target, encoded=True),
            data=request.body,
            headers=headers,
            allow_redirects=False,
            proxy=self._proxy,
            timeout=timeout,
            ssl=self._ssl_context(credential),
            server_hostname=self.config.server_name or None,
            middlewares=_NO_RESEND if request.method in _RESENT else None,
        )

    async def _error_and_delay(
        self, response: aiohttp.ClientResponse, info: RequestInfo, state: RetryState
    ) -> tuple[ClusterError, float | None]:
        body = await _body(response)
        text = body[:_TEXT_LIMIT].decode("utf-8", "replace")
        status = decode_status(body) or Status(message=f"{response.status} {response.reason}: {text}")
        retry_after = retry.parse_retry_after(response.headers.get("Retry-After"))
        delay = retry.delay_after_response(response.status, retry_after, state, self._policy, self._random)
        if any(cause.reason == _DISRUPTION_BUDGET for cause in status.details.causes):
            delay = (
                None  # a disruption budget refuses an eviction: the caller decides what to do, not a retry
            )
        return error_from_status(response.status, status, info, self.config), delay

    def _ssl_context(self, credential: Credential) -> SSLContext | bool:
        """Return the TLS context that presents this credential; each context has its own connections."""
        pair = credential.certificate, credential.key
        if self._tls is None or pair != (self._presented.certificate, self._presented.key):
            if not self._base.startswith("https:"):
                return True
            self._tls, self._presented = tls.create_context(self.config, *pair), credential
        return self._tls


class _BrokenWriteError(aiohttp.ClientConnectionError):
    """A connection that broke during a write; aiohttp does not resend a request that fails with this."""


async def _without_resend(
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
conditional write that the server executed the first time fails the second."""
_NO_RESEND: Final = (_without_resend,)


async def _whole_response(response: aiohttp.ClientResponse) -> aiohttp.ClientResponse:
    return response


async def _body(response: aiohttp.ClientResponse) -> bytes:
    """Read a whole response and return its connection to the pool."""
    async with response:
        data = await response.read()
    if response.headers.get("Content-Encoding") == "gzip":
        try:
            return zlib.decompress(data, wbits=31)
        except zlib.error as error:
            raise aiohttp.ClientPayloadError(f"not gzip, although its header says so: {error}") from None
    return data
