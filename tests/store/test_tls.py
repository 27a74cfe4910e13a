"""TLS: served with a certificate, which is read again when it changes."""

import http.client
import socket
import ssl
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from fairlead.authority import CertificateAuthority, LeafCertificate
from fairlead.settings import TlsFiles
from tests.store.stores import TOKEN, received_of, store


def certificate(folder: Path, authority: CertificateAuthority, name: str) -> None:
    """Write a certificate of this name, and its key."""
    leaf = LeafCertificate("store", name, hosts=("127.0.0.1",))
    cert, key = authority.issue(leaf, timedelta(days=1))
    (folder / "cert.pem").write_bytes(cert)
    (folder / "key.pem").write_bytes(key)


def test_files_over_tls_and_a_new_certificate(tmp_path: Path) -> None:
    authority = CertificateAuthority.new("test", timedelta(days=1))
    certificate(tmp_path, authority, "first")
    trust = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    data = bytes(range(256)) * 20_000
    with store(tmp_path, tls=TlsFiles(str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"))) as served:
        port = urlsplit(served.url).port or 0
        assert served.url.startswith("https://")

        def ask(method: str, body: bytes | None = None) -> tuple[int, bytes]:
            connection = http.client.HTTPSConnection("127.0.0.1", port, context=trust, timeout=30)
            connection.request(method, "/f", body, {"Authorization": f"Bearer {TOKEN}"})
            answer = connection.getresponse()
            result = (answer.status, answer.read())
            connection.close()
            return result

        def subject() -> str:
            with (
                socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
                trust.wrap_socket(plain, server_hostname="127.0.0.1") as tls,
            ):
                return str(tls.getpeercert()["subject"])  # type: ignore[index]  # it was verified

        assert ask("PUT", data) == (201, b"")
        assert ask("GET") == (200, data)
        assert "first" in subject()
        certificate(tmp_path, authority, "second")
        assert "second" in subject()
        # A client that speaks no TLS, or none of its end, stops nobody.
        with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
            plain.sendall(b"\x16\x03\x01")
            assert ask("GET") == (200, data)
        with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert received_of(plain) == b""
