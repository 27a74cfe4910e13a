"""Small servers on loopback with responses that a test sets, and certificates for them."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fairlead.cluster.client import Client
from fairlead.cluster.config.types import ClusterConfig
from fairlead.cluster.http.retry import RetryPolicy
from fairlead.cluster.http.transport import Transport
from fairlead.compat.times import UTC

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
ByteHandler = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class RecordedRequests:
    """The requests that a server received."""

    server: str = ""
    requests: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def config(self) -> ClusterConfig:
        return ClusterConfig(server=self.server, source="the test", user="jane")


@asynccontextmanager
async def serve_responses(
    handler: Handler, tls: ssl.SSLContext | None = None
) -> AsyncIterator[RecordedRequests]:
    """Serve every request with one function."""
    seen = RecordedRequests()

    async def record(request: web.BaseRequest) -> web.StreamResponse:
        seen.requests.append(f"{request.method} {request.path_qs}")
        seen.bodies.append(await request.read())
        seen.headers.append(dict(request.headers))
        return await handler(request)

    server = web.Server(record)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    _, port = runner.addresses[0][:2]
    seen.server = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield seen
    finally:
        await runner.cleanup()


@asynccontextmanager
async def serve_bytes(talk: ByteHandler) -> AsyncIterator[RecordedRequests]:
    """Serve bytes: `talk` gets the head of each request and a writer; then the connection is aborted."""
    seen = RecordedRequests()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            seen.requests.append(head.split(b" HTTP/")[0].decode())
            await talk(head, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    seen.server = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield seen


def chunk(data: bytes) -> bytes:
    """Return data as HTTP chunks carry it."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


SHORT_RETRY = RetryPolicy(max_attempts=4, max_wait=1.0)
Scenario = Callable[[Client, RecordedRequests], Coroutine[Any, Any, None]]


def pod(name: str, **spec: object) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "x", "uid": f"uid-{name}"}, "spec": spec}


def status(code: int, reason: str, message: str = "", **details: object) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return web.json_response({**body, "details": details}, status=code)


def run_with_responses(handler: Handler, scenario: Scenario) -> None:
    async def run() -> None:
        async with (
            serve_responses(handler) as seen,
            Transport.open(seen.config, policy=SHORT_RETRY) as transport,
        ):
            await scenario(Client(transport), seen)

    asyncio.run(run())


def run_with_bytes(talk: ByteHandler, scenario: Scenario) -> None:
    async def run() -> None:
        async with serve_bytes(talk) as seen, Transport.open(seen.config, policy=SHORT_RETRY) as transport:
            await scenario(Client(transport), seen)

    asyncio.run(run())


def always(response: Callable[[], web.Response]) -> Handler:
    async def serve(_: web.BaseRequest) -> web.Response:
        return response()

    return serve


def in_order(*responses: Callable[[], web.Response]) -> Handler:
    left = list(responses)

    async def serve(_: web.BaseRequest) -> web.Response:
        return left.pop(0)() if len(left) > 1 else left[0]()

    return serve


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates for a test."""

    def __init__(self, name: str = "test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=365))
            .not_valid_after(now + timedelta(days=365))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = made.public_bytes(serialization.Encoding.PEM)

    def leaf(self, name: str, *, until: datetime | None = None, host: str = "127.0.0.1") -> Pair:
        """Sign a certificate for a server or a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        end = until or datetime.now(UTC) + timedelta(days=1)
        alternative = (
            x509.DNSName(host) if host.replace(".", "").isalpha() else x509.IPAddress(ip_address(host))
        )
        made = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(end - timedelta(days=30))
            .not_valid_after(end)
            .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
        return Pair(
            made.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )

    def server(
        self, folder: Path, *, host: str = "127.0.0.1", until: datetime | None = None
    ) -> ssl.SSLContext:
        """Return the TLS context of a server that requests, but does not require, a client certificate."""
        pair = self.leaf("server", host=host, until=until)
        path = folder / "server.pem"
        path.write_bytes(pair.certificate + pair.key)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=self.pem.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_cert_chain(path)
        return context
