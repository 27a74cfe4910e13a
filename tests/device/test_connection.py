"""The pin: nothing is sent to a store that shows another certificate."""

from contextlib import closing
from io import BytesIO
from pathlib import Path

import pytest

from fairlead.device.connection import StoreConnection
from fairlead.device.membership import parse_fingerprint, parse_url
from fairlead.errors import DeviceError, StoreUnavailableError
from tests.device.store import TOKEN, FakeStore, certificate, serving


def test_the_pinned_certificate_is_accepted(tmp_path: Path) -> None:
    files, fingerprint = certificate(tmp_path, "store")
    store = FakeStore(files={"a": b"1"})
    with serving(store, files), closing(StoreConnection(store.url, fingerprint, TOKEN)) as connection:
        assert connection.request("GET", "/a").body == b"1"


def test_another_certificate_gets_nothing(tmp_path: Path) -> None:
    files, _ = certificate(tmp_path, "store")
    _, other = certificate(tmp_path, "other")
    with serving(FakeStore(files={"a": b"1"}), files) as store:
        with closing(StoreConnection(store.url, other, TOKEN)) as connection:
            with pytest.raises(DeviceError, match="another certificate"):
                connection.request("GET", "/a")
            with pytest.raises(DeviceError, match="another certificate"):
                connection.upload("/b", {}, lambda: BytesIO(b"1"), 1)
        assert store.requests == []


def test_a_store_that_is_gone_is_unavailable() -> None:
    unavailable = pytest.raises(StoreUnavailableError, match=r"127\.0\.0\.1:1: the store cannot be reached")
    with closing(StoreConnection("http://127.0.0.1:1", "", TOKEN)) as connection, unavailable:
        connection.request("GET", "/a")


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://server:8443/", "https://server:8443"),
        ("https://server/session/", "https://server/session"),
        ("http://127.0.0.1:80", "http://127.0.0.1:80"),
        ("http://[::1]:80/", "http://[::1]:80"),
        ("http://server:80/", None),
        ("ftp://server", None),
        ("server:8443", None),
        ("https://user@server", None),
        ("https://server:99999", None),
        ("https://server/?a", None),
        ("", None),
    ],
)
def test_plain_http_is_for_loopback_alone(text: str, url: str | None) -> None:
    if url is None:
        with pytest.raises(DeviceError):
            parse_url(text)
    else:
        assert parse_url(text) == url


def test_fingerprints_are_read_as_openssl_and_fairlead_print_them() -> None:
    plain = "ab" * 32
    assert parse_fingerprint("sha256:" + plain) == plain
    assert parse_fingerprint(":".join(["AB"] * 32)) == plain
    for text in ("", "sha256:", "ab" * 31, "zz" * 32):
        with pytest.raises(DeviceError, match="not a fingerprint"):
            parse_fingerprint(text)
