"""The router: paths, methods, sizes, certificates."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fairlead.errors import SettingsError
from fairlead.serve.extender.extender import ABSENT
from fairlead.serve.web.httpd import Response, listen
from fairlead.serve.web.request_bodies import BODY_LIMIT
from fairlead.serve.web.router import Router, open_server
from fairlead.serve.web.tls import Tls, server_tls
from fairlead.settings import Address, TlsFiles
from tests.cluster.loopback import Authority

Answer = tuple[int, str]


async def echo(body: bytes) -> Response:
    return Response(200, str(len(body)).encode())


def alive() -> Response:
    return Response(200, b"alive\n")


@asynccontextmanager
async def serving(tls: Tls | None = None, *, require_certificate: bool = False) -> AsyncIterator[str]:
    """Serve `/filter` and two pages; yield the address."""
    listener = listen(Address("127.0.0.1", 0))
    pages = {"/healthz": alive, "/metrics": alive}
    router = Router({"/filter": echo}, pages, require_certificate=require_certificate, unsupported=ABSENT)
    async with open_server(listener, router, tls.context if tls else None):
        yield f"{'https' if tls else 'http'}://127.0.0.1:{listener.getsockname()[1]}"


async def ask(url: str, method: str = "POST", data: Any = None, how: Any = True) -> Answer:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, data=data, ssl=how) as response,
    ):
        return response.status, await response.text()


def asked(path: str, method: str = "POST", data: Any = None) -> Answer:
    async def scenario() -> Answer:
        async with serving() as url:
            return await ask(url + path, method, data() if callable(data) else data)

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("method", "path", "status", "says"),
    [
        ("POST", "/filter", 200, "0"),
        ("GET", "/filter", 405, "only POST"),
        ("GET", "/healthz", 200, "alive"),
        ("GET", "/metrics?x=1", 200, "alive"),
        ("POST", "/metrics", 405, "only GET"),
        ("DELETE", "/metrics", 405, "only GET"),
        ("GET", "/", 404, "the paths are /filter, /healthz, /metrics"),
        ("POST", "/preempt", 404, "no such path"),
        ("POST", "/bind", 404, "never binds: leave bindVerb out"),
        ("POST", "/filter/", 404, "no such path"),
    ],
)
def test_every_request_gets_a_helpful_answer(method: str, path: str, status: int, says: str) -> None:
    answer = asked(path, method)
    assert answer[0] == status
    assert says in answer[1]


def test_a_body_has_a_limit_with_and_without_content_length() -> None:
    assert asked("/filter", data=BytesIO(bytes(BODY_LIMIT))) == (200, str(BODY_LIMIT))
    assert asked("/filter", data=BytesIO(bytes(10_000_000))) == (413, "the body is larger than 4 MiB\n")

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(6):
            yield bytes(1 << 20)

    assert asked("/filter", data=endless)[0] == 413


def test_bytes_that_are_not_http_do_not_disturb_others() -> None:
    async def scenario() -> None:
        async with serving() as url:
            host, port = url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"\xff\xfe garbage\r\n\r\n")
            assert b" 400 " in await reader.readline()
            writer.close()
            assert (await ask(f"{url}/healthz", "GET"))[0] == 200

    asyncio.run(scenario())


def test_requests_need_a_certificate_and_probes_do_not(tmp_path: Path) -> None:
    files, authority = written(tmp_path, "server")

    async def scenario(shown: ssl.SSLContext, bare: ssl.SSLContext) -> None:
        tls = server_tls(files, str(tmp_path / "ca.crt"), print)
        async with serving(tls, require_certificate=True) as url:
            assert await ask(f"{url}/filter", how=shown) == (200, "0")
            assert await ask(f"{url}/filter", how=bare) == (401, "a client certificate is required\n")
            assert (await ask(f"{url}/metrics", "GET", how=bare))[0] == 401
            assert (await ask(f"{url}/healthz", "GET", how=bare))[0] == 200

    bare = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    shown = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    client, _ = written(tmp_path, "client", authority)
    shown.load_cert_chain(client.cert, client.key)
    asyncio.run(scenario(shown, bare))


def test_a_new_certificate_applies_from_the_next_connection_on(tmp_path: Path) -> None:
    files, authority = written(tmp_path, "server")
    how = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    how.check_hostname = False

    async def subject(url: str) -> str:
        host, port = url.removeprefix("https://").split(":")
        _, writer = await asyncio.open_connection(host, int(port), ssl=how)
        name = str(writer.get_extra_info("peercert")["subject"])
        writer.close()
        return name

    async def scenario() -> None:
        tls = server_tls(files, "", print)
        async with serving(tls) as url:
            assert "'server'" in await subject(url)
            renewed = authority.leaf("renewed")
            Path(files.cert).write_bytes(renewed.certificate)
            Path(files.key).write_bytes(renewed.key)
            tls.files.current()
            assert "'renewed'" in await subject(url)

    asyncio.run(scenario())


def test_tls_files_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    files, _ = written(tmp_path, "server")
    with pytest.raises(SettingsError, match="cannot be used"):
        server_tls(files, str(tmp_path / "none.crt"), print)
    Path(files.key).write_text("nonsense")
    with pytest.raises(SettingsError, match="cannot be used"):
        server_tls(files, "", print)


def written(folder: Path, name: str, authority: Authority | None = None) -> tuple[TlsFiles, Authority]:
    """Write a certificate, its key and its authority's certificate."""
    authority = authority or Authority()
    pair = authority.leaf(name)
    (folder / "ca.crt").write_bytes(authority.pem)
    (folder / f"{name}.crt").write_bytes(pair.certificate)
    (folder / f"{name}.key").write_bytes(pair.key)
    return TlsFiles(str(folder / f"{name}.crt"), str(folder / f"{name}.key")), authority
