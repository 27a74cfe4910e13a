"""A page over HTTPS is read from the holder of the right certificate alone, with a token."""

import asyncio
import ssl
from datetime import timedelta
from pathlib import Path

from fairlead.authority import CertificateAuthority, LeafCertificate
from fairlead.reconcile import PodPage
from fairlead.serve.operator.page_http import read_page

NAME = "store.shop.svc"
LIFE = timedelta(hours=1)


def read(folder: Path, served_by: CertificateAuthority, authority: str) -> tuple[tuple[bytes, str], str]:
    """Return what a server of one authority answers to a reader that trusts another, and the token it got."""
    certificate, key = served_by.issue(LeafCertificate("store", "store", hosts=(NAME,)), LIFE)
    (folder / "pem").write_bytes(key + certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "pem")
    heads: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nhello")
        await writer.drain()
        writer.close()

    async def play() -> tuple[bytes, str]:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await read_page(PodPage("127.0.0.1", port, "/report", authority, NAME, "secret"), 60.0)

    return asyncio.run(play()), "".join(heads)


def test_the_right_authority_gets_the_page_and_the_server_the_token(tmp_path: Path) -> None:
    authority = CertificateAuthority.new("one", LIFE)
    page, head = read(tmp_path, authority, authority.certificate_pem.decode())
    assert page == (b"hello", "")
    assert "Authorization: Bearer secret\r\n" in head


def test_another_authority_gets_no_token(tmp_path: Path) -> None:
    other = CertificateAuthority.new("two", LIFE).certificate_pem.decode()
    (body, error), head = read(tmp_path, CertificateAuthority.new("one", LIFE), other)
    assert body == b""
    assert "certificate verify failed" in error
    assert head == ""


def test_a_text_that_is_no_certificate_is_an_error(tmp_path: Path) -> None:
    (body, error), head = read(tmp_path, CertificateAuthority.new("one", LIFE), "no certificate")
    assert (body, head) == (b"", "")
    assert error
