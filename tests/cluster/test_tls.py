"""Which servers are trusted, which certificate is presented, and which proxy is used."""

import asyncio
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from aiohttp import web

from fairlead import errors
from fairlead.cluster.client import Client
from fairlead.cluster.config.proxy import find_proxy
from fairlead.cluster.config.types import AuthInfo, ClusterConfig
from fairlead.compat.times import UTC
from tests.cluster.loopback import Authority, serve_bytes, serve_responses

HOME, STRANGER = Authority("home"), Authority("stranger")
JANE = HOME.leaf("jane")


async def shown(request: web.BaseRequest) -> web.Response:
    """Respond with the name in the client's certificate."""
    assert request.transport is not None
    peer = request.transport.get_extra_info("peercert") or {}
    names = [value for part in peer.get("subject", ()) for _, value in part]
    return web.json_response({"gitVersion": ",".join(names)})


def ask(server: ssl.SSLContext, **changes: object) -> str:
    """Return the name that a TLS server reads from the client's certificate."""

    async def run() -> str:
        async with serve_responses(shown, server) as seen:
            config = replace(seen.config, **changes)  # type: ignore[arg-type]  # the tests know the fields
            async with Client.connect_once(config) as client:
                brief = (await client.version()).git_version
            async with Client.connect(config) as client:
                assert (await client.version()).git_version == brief
            return brief

    return asyncio.run(run())


def test_the_authority_is_trusted_and_the_certificate_presented(tmp_path: Path) -> None:
    server = HOME.server(tmp_path)
    assert ask(server, ca=HOME.pem) == ""
    assert ask(server, ca=HOME.pem, login=AuthInfo(certificate=JANE.certificate, key=JANE.key)) == "jane"
    assert ask(server, insecure=True) == ""
    assert ask(server, ca=STRANGER.pem, insecure=True) == ""


def test_other_servers_are_not_trusted(tmp_path: Path) -> None:
    for server, changes, says in (
        (HOME.server(tmp_path), {"ca": STRANGER.pem}, "certificate that is not trusted"),
        (HOME.server(tmp_path), {}, "certificate that is not trusted"),
        (HOME.server(tmp_path, host="api.example.org"), {"ca": HOME.pem}, "IP address mismatch"),
        (
            HOME.server(tmp_path, until=datetime(2026, 1, 1, tzinfo=UTC)),
            {"ca": HOME.pem},
            "certificate has expired",
        ),
    ):
        with pytest.raises(errors.ClusterUnavailableError, match=says) as caught:
            ask(server, **changes)
        assert caught.value.exit_code == 3
        assert "certificate-authority" in caught.value.hint


def test_the_server_may_have_another_name(tmp_path: Path) -> None:
    server = HOME.server(tmp_path, host="api.example.org")
    assert ask(server, ca=HOME.pem, server_name="api.example.org") == ""


def test_unusable_certificates_are_kubeconfig_errors(tmp_path: Path) -> None:
    server = HOME.server(tmp_path)
    other = HOME.leaf("other")
    for changes, says in (
        ({"ca": b"hello"}, "certificate authority is not a PEM certificate"),
        ({"ca": b"\xff"}, "certificate authority is not a PEM certificate"),
        ({"ca": HOME.pem, "login": AuthInfo(certificate=JANE.certificate, key=other.key)}, "cannot be used"),
        ({"ca": HOME.pem, "login": AuthInfo(certificate=JANE.certificate, key=b"hello")}, "cannot be used"),
    ):
        with pytest.raises(errors.KubeconfigError, match=says):
            ask(server, **changes)


def test_a_server_without_tls() -> None:
    async def talk(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async def run() -> None:
        async with serve_responses(shown) as seen:
            config = replace(seen.config, server=seen.server.replace("http:", "https:"))
            async with Client.connect(config) as client:
                with pytest.raises(errors.ClusterUnavailableError, match="no TLS with https"):
                    await client.version()

    asyncio.run(run())


def test_requests_use_a_proxy() -> None:
    async def run() -> None:
        async with serve_responses(shown) as proxy:
            config = ClusterConfig(server="http://10.255.255.1:8001", proxy=proxy.server)
            async with Client.connect(config) as client:
                await client.version()
            assert [headers["Host"] for headers in proxy.headers] == ["10.255.255.1:8001"]

    asyncio.run(run())


def test_tls_passes_through_a_proxy_unchanged(tmp_path: Path) -> None:
    async def run() -> None:
        async with serve_responses(shown, HOME.server(tmp_path, host="api.example.org")) as seen:
            port = int(seen.server.rpartition(":")[2])

            async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"CONNECT api.example.org:6443 ")
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                inner, outer = await asyncio.open_connection("127.0.0.1", port)
                await asyncio.gather(pour(reader, outer), pour(inner, writer))

            proxy = await asyncio.start_server(relay, "127.0.0.1", 0)
            config = ClusterConfig(
                server="https://api.example.org:6443",
                proxy=f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}",
                ca=HOME.pem,
                login=AuthInfo(certificate=JANE.certificate, key=JANE.key),
            )
            async with proxy, Client.connect(config) as client:
                assert (await client.version()).git_version == "jane"

    asyncio.run(run())


@contextmanager
def silent(tls: ssl.SSLContext) -> Iterator[tuple[str, threading.Event]]:
    """Serve TLS, read one request, and send nothing more, not even a close; set the event after the read."""
    received, over = threading.Event(), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with tls.wrap_socket(listening.accept()[0], server_side=True) as line:
                line.recv(1 << 16)
                received.set()
                over.wait(60)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"https://127.0.0.1:{listening.getsockname()[1]}", received
        finally:
            over.set()
            thread.join()


def test_a_cancelled_request_leaves_no_open_connection(tmp_path: Path) -> None:
    """A clean end of TLS waits for the server's close: if the loop ends first, the connection leaks."""
    unmade: list[str] = []

    async def run(server: str, received: threading.Event) -> None:
        login = AuthInfo(certificate=JANE.certificate, key=JANE.key)
        async with Client.connect(ClusterConfig(server=server, ca=HOME.pem, login=login)) as client:
            asking = asyncio.create_task(client.version())
            await asyncio.to_thread(received.wait)
            asking.cancel()
            await asyncio.wait([asking])

    with silent(HOME.server(tmp_path)) as (server, received), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_, **__: unmade.append(str(message))
        asyncio.run(run(server, received))
        gc.collect()
    assert unmade == []


async def pour(source: asyncio.StreamReader, into: asyncio.StreamWriter) -> None:
    """Copy bytes until the end of the stream."""
    while data := await source.read(1 << 16):
        into.write(data)
    into.close()


def test_a_proxy_that_refuses_the_connection() -> None:
    async def talk(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    async def run() -> None:
        async with serve_bytes(talk) as proxy:
            config = ClusterConfig(server="https://10.255.255.1:6443", proxy=proxy.server)
            async with Client.connect(config) as client:
                with pytest.raises(errors.ClusterUnavailableError, match="the proxy before https:"):
                    await client.version()

    asyncio.run(run())


FAR = "https://api.example.org:6443"
PROXIES: list[tuple[str, str, dict[str, str], str | None]] = [
    (FAR, "", {}, None),
    (FAR, "http://own:1", {"HTTPS_PROXY": "http://env:1"}, "http://own:1"),
    (FAR, "", {"HTTPS_PROXY": "http://env:1"}, "http://env:1"),
    (FAR, "", {"https_proxy": "http://low:1", "HTTPS_PROXY": "http://env:1"}, "http://low:1"),
    (FAR, "", {"HTTP_PROXY": "http://env:1"}, None),
    (FAR, "", {"HTTPS_PROXY": "http://env:1", "NO_PROXY": "other.org, example.org"}, None),
    (FAR, "", {"HTTPS_PROXY": "http://env:1", "NO_PROXY": ".example.org"}, None),
    (FAR, "", {"HTTPS_PROXY": "http://env:1", "NO_PROXY": "ple.org"}, "http://env:1"),
    (FAR, "", {"HTTPS_PROXY": "http://env:1", "NO_PROXY": "*"}, None),
    ("https://10.1.2.3", "", {"HTTPS_PROXY": "http://env:1", "NO_PROXY": "10.0.0.0/8"}, None),
    ("https://11.1.2.3", "", {"HTTPS_PROXY": "http://env:1", "NO_PROXY": "10.0.0.0/8"}, "http://env:1"),
    ("https://127.0.0.1:6443", "", {"HTTPS_PROXY": "http://env:1"}, None),
    ("https://[::1]:6443", "", {"HTTPS_PROXY": "http://env:1"}, None),
    ("https://localhost:6443", "", {"HTTPS_PROXY": "http://env:1"}, None),
]


@pytest.mark.parametrize(("server", "own", "env", "proxy"), PROXIES)
def test_the_proxy_of_a_server(server: str, own: str, env: dict[str, str], proxy: str | None) -> None:
    assert find_proxy(ClusterConfig(server=server, proxy=own), env) == proxy


def test_socks_is_refused_without_its_password() -> None:
    config = ClusterConfig(server=FAR, source="config", proxy="socks5://me:secret@proxy:1080")
    with pytest.raises(errors.KubeconfigError, match="is not an HTTP proxy") as caught:
        find_proxy(config, {})
    assert "secret" not in str(caught.value)
