"""Fetch pages of other HTTP servers (Prometheus, agents): bounded in bytes and time, without redirects.

The caller repeats its reads, so a request that fails is not retried here. A failure is a value with a hint.
"""

import base64
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Final
from urllib.parse import urlencode, urlsplit

import aiohttp

from fairlead import __version__
from fairlead.cluster.config import tls
from fairlead.cluster.config.auth import Credential, TokenFileIdentity
from fairlead.cluster.config.proxy import find_proxy
from fairlead.cluster.config.types import ClusterConfig
from fairlead.cluster.http.connection_errors import describe
from fairlead.cluster.http.sockets import SocketTracker
from fairlead.compat.aio import TIMEOUTS
from fairlead.errors import FairleadError, KubeconfigError

_FORM: Final = "application/x-www-form-urlencoded"
_KEEPALIVE: Final = 45.0
"""Seconds that an idle connection is kept: longer than the period of most reads."""


@dataclass(frozen=True, slots=True)
class FetchAccess:
    """How to reach servers: certificates and credentials, by file, so that they can be replaced."""

    token_file: str = ""
    """A bearer token."""
    basic_file: str = ""
    """`user:password`, for basic authentication."""
    ca_file: str = ""
    """PEM; empty for the system's certificate authorities."""
    server_name: str = ""
    """The name that a server's certificate must have, if it differs from the host's."""
    env: Mapping[str, str] = field(default_factory=dict)
    """The environment, for proxies."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """The response of a server, whatever its status."""

    status: int
    content_type: str
    body: bytes
    location: str = ""
    """Where a redirect points to."""


@dataclass(frozen=True, slots=True)
class FetchFailure:
    """Why there is no response, and what to do."""

    text: str
    hint: str
    too_large: bool = False


class Fetcher:
    """Pooled connections to any number of servers."""

    def __init__(self, session: aiohttp.ClientSession, access: FetchAccess) -> None:
        self._session = session
        self._access = access
        self._tls: SSLContext | None = None
        path = access.token_file or access.basic_file
        self._identity = TokenFileIdentity(path, Credential(), time.monotonic) if path else None

    @classmethod
    @asynccontextmanager
    async def open(cls, access: FetchAccess, connections: int = 16) -> AsyncIterator["Fetcher"]:
        """Prepare a connection pool; connections are opened with requests."""
        sockets = SocketTracker()
        try:
            async with aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=connections, keepalive_timeout=_KEEPALIVE, socket_factory=sockets.create
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"Accept-Encoding": "identity", "User-Agent": f"fairlead/{__version__}"},
                auto_decompress=False,  # a compressed response could be of any size
            ) as session:
                yield cls(session, access)
        finally:
            await sockets.close_all()

    async def fetch(
        self, url: str, *, form: Mapping[str, str] | None = None, limit: int, seconds: float
    ) -> Fetched | FetchFailure:
        """Return a response of at most `limit` bytes that came within `seconds`; a form is sent by POST."""
        config = ClusterConfig(url, source=url, server_name=self._access.server_name)
        try:
            return await self._fetch(url, form, limit, aiohttp.ClientTimeout(total=seconds), config)
        except FairleadError as error:  # a file of ours
            return FetchFailure(str(error), error.hint)
        except (aiohttp.ClientError, OSError, *TIMEOUTS) as error:
            if isinstance(error, aiohttp.ClientSSLError):
                self._tls = None  # the file of authorities may be replaced
            return FetchFailure(describe(error, config)[0], "check the address, and that the server runs")
        except ValueError as error:
            return FetchFailure(f"{url}: {error}", "correct the address")

    async def _fetch(
        self,
        url: str,
        form: Mapping[str, str] | None,
        limit: int,
        timeout: aiohttp.ClientTimeout,
        config: ClusterConfig,
    ) -> Fetched | FetchFailure:
        headers = await self._authorization()
        if form is not None:
            headers["Content-Type"] = _FORM
        async with self._session.request(
            "GET" if form is None else "POST",
            url,
            data=None if form is None else urlencode(form).encode(),
            headers=headers,
            allow_redirects=False,
            proxy=find_proxy(config, self._access.env),
            timeout=timeout,
            ssl=self._ssl_context(config),
            server_hostname=config.server_name or None,
        ) as response:
            if response.headers.get("Content-Encoding", "identity") != "identity":
                return FetchFailure(
                    f"{url} compresses its response, which was not requested", "check for a proxy before it"
                )
            body = await _bounded(response, limit)
            if body is None:
                text = f"the response of {url} has more than {limit >> 20} MiB"
                return FetchFailure(text, "read fewer series", too_large=True)
            location = response.headers.get("Location", "")
            return Fetched(response.status, response.content_type, body, location)

    async def _authorization(self) -> dict[str, str]:
        if self._identity is None:
            return {}
        secret = (await self._identity.current()).token
        if self._access.token_file:
            return {"Authorization": f"Bearer {secret}"}
        return {"Authorization": f"Basic {base64.b64encode(secret.encode()).decode()}"}

    def _ssl_context(self, config: ClusterConfig) -> SSLContext | bool:
        if urlsplit(config.server).scheme != "https":
            return True
        if self._tls is None:
            path = self._access.ca_file
            source = ClusterConfig(config.server, source=path, ca=_read_authorities(path) if path else b"")
            self._tls = tls.create_context(source, b"", b"")
        return self._tls


def _read_authorities(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        hint = "mount the file, or correct its path"
        raise KubeconfigError(f"{path}: the certificate authorities cannot be read: {error}", hint) from None


async def _bounded(response: aiohttp.ClientResponse, limit: int) -> bytes | None:
    """Return the body; None if it is larger than the limit."""
    chunks, size = [], 0
    while chunk := await response.content.readany():
        size += len(chunk)
        if size > limit:
            response.close()
            return None
        chunks.append(chunk)
    return b"".join(chunks)
