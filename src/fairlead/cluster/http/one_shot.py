"""Ask two or three things of a server and be done.

A library that keeps hundreds of connections takes longer to load than a few questions to be answered. So
these go over one plain connection, for as long as each is answered with a success. Whatever else comes (a no,
no answer, a proxy on the way, several questions at once) is left to the transport, which asks anew: it tries
again where that is right, and says what is wrong.
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
"""Seconds without a byte after which the transport is to try."""


class OneShotTransport:
    """One connection to one server, and a transport behind it."""

    def __init__(
        self, config: ClusterConfig, behind: AsyncExitStack, read_timeout: float = READ_TIMEOUT
    ) -> None:
        self.config = config
        self._read_timeout = read_timeout
        self._behind = behind
        self._transport: Transport | None = None
        self._who = make_identity(config, os.environ, time.time, time.monotonic)
        self._direct = not config.server_name and find_proxy(config, os.environ) is None
        self._base = urlsplit(config.server.rstrip("/"))
        self._line: http.client.HTTPConnection | None = None
        self._taken = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def open(
        cls, config: ClusterConfig, read_timeout: float = READ_TIMEOUT
    ) -> AsyncIterator["OneShotTransport"]:
        """Prepare; nothing is connected yet."""
        async with AsyncExitStack() as behind:
            brief = cls(config, behind, read_timeout)
            try:
                yield brief
            finally:
                brief.close()

    async def send(self, request: HttpRequest, asked: RequestInfo) -> bytes:
        """Return the answer's body; every answer that is not a success is an error of ours."""
        if self._direct and request.method == "GET" and not self._taken.locked():
            async with self._taken:
                who = await self._who.current()
                found = await asyncio.to_thread(self._quickly, request, who)
            if found is not None:
                return found
        return await (await self._thorough()).send(request, asked)

    @asynccontextmanager
    async def stream(
        self, request: HttpRequest, asked: RequestInfo, idle: float
    ) -> AsyncIterator["LineBatches"]:
        """Open an answer that goes on and on, which is nothing brief."""
        async with (await self._thorough()).stream(request, asked, idle) as batches:
            yield batches

    def close(self) -> None:
        """End the connection, also under somebody who still listens."""
        if self._line is not None and self._line.sock is not None:
            with suppress(OSError):
                self._line.sock.shutdown(socket.SHUT_RDWR)
            self._line.close()

    async def _thorough(self) -> "Transport":
        """Return the transport; from now on all goes there."""
        self._direct = False
        if self._transport is None:
            from fairlead.cluster.http.transport import Transport  # noqa: PLC0415 - this is what takes long

            self._transport = await self._behind.enter_async_context(Transport.open(self.config))
        return self._transport

    def _quickly(self, request: HttpRequest, who: Credential) -> bytes | None:
        """Return a success, or None for whatever else there may be."""
        try:
            self._line = self._line or self._connection(who)
            self._line.putrequest(request.method, self._base.path + request.target, skip_accept_encoding=True)
            for name, value in headers(self.config.impersonate, gzip=False):
                self._line.putheader(name, value)
            if who.token:
                self._line.putheader("Authorization", f"Bearer {who.token}")
            self._line.endheaders()
            answer = self._line.getresponse()
            body = answer.read()
        except (OSError, ValueError, http.client.HTTPException):
            return None
        plain = answer.getheader("Content-Encoding", "identity") == "identity"
        return body if answer.status == http.HTTPStatus.OK and plain else None

    def _connection(self, who: Credential) -> http.client.HTTPConnection:
        host, port = self._base.hostname or "", self._base.port
        if self._base.scheme != "https":
            return http.client.HTTPConnection(host, port, timeout=self._read_timeout)
        context = tls.create_context(self.config, who.certificate, who.key)
        return http.client.HTTPSConnection(host, port, timeout=self._read_timeout, context=context)
