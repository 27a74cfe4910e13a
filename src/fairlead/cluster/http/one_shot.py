"""Send two or three requests over one connection, for a command that ends after them.

aiohttp takes longer to load than the server takes to answer a few requests. So reads go over one plain
http.client connection for as long as each succeeds. Every other case (an error status, no response, a proxy,
a write, concurrent requests) goes to the full transport, which sends the request again, retries where a
retry is safe, and says what is wrong.
"""

import asyncio
import http.client
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from fairlead.cluster.config import tls
from fairlead.cluster.config.auth import Credential, make_identity
from fairlead.cluster.config.proxy import find_proxy
from fairlead.cluster.config.types import ClusterConfig
from fairlead.cluster.http.api_errors import RequestInfo
from fairlead.cluster.http.request import HttpRequest, headers

if TYPE_CHECKING:
    from fairlead.cluster.http.transport import LineBatches, Transport

READ_TIMEOUT: Final = 5.0
"""Seconds without a byte after which the full transport takes over."""


class OneShotTransport:
    """One connection to one server, and the full transport as a fallback."""

    def __init__(
        self, config: ClusterConfig, exit_stack: AsyncExitStack, read_timeout: float = READ_TIMEOUT
    ) -> None:
        self.config = config
        self._read_timeout = read_timeout
        self._exit_stack = exit_stack
        self._transport: Transport | None = None
        self._identity = make_identity(config, os.environ, time.time, time.monotonic)
        self._direct = not config.server_name and find_proxy(config, os.environ) is None
        self._base = urlsplit(config.server.rstrip("/"))
        self._connection: http.client.HTTPConnection | None = None
        self._lock = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def open(
        cls, config: ClusterConfig, read_timeout: float = READ_TIMEOUT
    ) -> AsyncIterator["OneShotTransport"]:
        """Prepare a connection; it is opened with the first request."""
        async with AsyncExitStack() as exit_stack:
            transport = cls(config, exit_stack, read_timeout)
            try:
                yield transport
            finally:
                transport.close()

    async def send(self, request: HttpRequest, info: RequestInfo) -> bytes:
        """Return the body of the response; raise a ClusterError for every response but a success."""
        if self._direct and request.method == "GET" and not self._lock.locked():
            async with self._lock:
                credential = await self._identity.current()
                body = await asyncio.to_thread(self._send_once, request, credential)
            if body is not None:
                return body
        return await (await self._full_transport()).send(request, info)

    @asynccontextmanager
    async def stream(
        self, request: HttpRequest, info: RequestInfo, idle: float
    ) -> AsyncIterator["LineBatches"]:
        """Open a streamed response, which only the full transport can do."""
        async with (await self._full_transport()).stream(request, info, idle) as batches:
            yield batches

    def close(self) -> None:
        """Close the connection, even while a thread reads from it."""
        if self._connection is not None and self._connection.sock is not None:
            with suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)
            self._connection.close()

    async def _full_transport(self) -> "Transport":
        """Return the full transport; from now on it sends every request."""
        self._direct = False
        if self._transport is None:
            from fairlead.cluster.http.transport import Transport  # noqa: PLC0415 - slow to load: see above

            self._transport = await self._exit_stack.enter_async_context(Transport.open(self.config))
        return self._transport

    def _send_once(self, request: HttpRequest, credential: Credential) -> bytes | None:
        """Return the body of a successful response, or None for anything else."""
        try:
            self._connection = self._connection or self._connect(credential)
            self._connection.putrequest(
                request.method, self._base.path + request.target, skip_accept_encoding=True
            )
            for name, value in headers(self.config.impersonate, gzip=False):
                self._connection.putheader(name, value)
            if credential.token:
                self._connection.putheader("Authorization", f"Bearer {credential.token}")
            self._connection.endheaders()
            response = self._connection.getresponse()
            body = response.read()
        except (OSError, ValueError, http.client.HTTPException):
            return None
        plain = response.getheader("Content-Encoding", "identity") == "identity"
        return body if response.status == http.HTTPStatus.OK and plain else None

    def _connect(self, credential: Credential) -> http.client.HTTPConnection:
        host, port = self._base.hostname or "", self._base.port
        if self._base.scheme != "https":
            return http.client.HTTPConnection(host, port, timeout=self._read_timeout)
        context = tls.create_context(self.config, credential.certificate, credential.key)
        return http.client.HTTPSConnection(host, port, timeout=self._read_timeout, context=context)
