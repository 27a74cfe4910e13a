"""The server with TLS: certificates that rotate, and misbehaving clients."""

import selectors
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import SettingsError
from fairlead.serve.web.httpd import (
    CONNECTION_LIMIT,
    REQUEST_LIMIT,
    TIME_LIMIT,
    PageServer,
    ServingOptions,
    listen,
)
from fairlead.serve.web.tls import TlsAcceptor, context
from fairlead.settings import TlsFiles
from fairlead.units import Seconds
from tests.cluster.loopback import Authority, Pair
from tests.serve.web import served
from tests.serve.web.served import (
    LARGE,
    LOOPBACK,
    PROBE,
    ask,
    ask_tls,
    connect,
    connect_tls,
    mount,
    rest,
    serving,
)

HOME = Authority("home")
CLIENT = served.trusting(HOME)


def tls_options(files: TlsFiles) -> ServingOptions:
    return ServingOptions(TlsAcceptor(files, lambda _: None))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return mount(tmp_path_factory.mktemp("secret"), "..1", HOME.leaf("agent"))


@pytest.fixture(scope="module")
def port(files: TlsFiles) -> Iterator[int]:
    """Serve with TLS for all tests of this file: it must survive each of them."""
    with serving(tls_options(files)) as port:
        yield port


def hello(client_tls: ssl.SSLContext = CLIENT) -> bytes:
    """Return a client's ClientHello."""
    inside, outside = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        client_tls.wrap_bio(inside, outside, server_hostname="127.0.0.1").do_handshake()
    return outside.read()


def test_serves_and_sends_close_notify(port: int) -> None:
    assert ask_tls(port, CLIENT).endswith(b"\r\n\r\n/healthz")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_accepts_secure_versions(port: int, version: ssl.TLSVersion) -> None:
    client_tls = served.trusting(HOME)
    client_tls.minimum_version = client_tls.maximum_version = version
    assert ask_tls(port, client_tls).endswith(b"/healthz")


def test_refuses_insecure_versions(port: int, files: TlsFiles) -> None:
    client_tls = served.trusting(HOME)
    client_tls.maximum_version = ssl.TLSVersion.TLSv1_2
    old = bytearray(hello(client_tls))
    assert old[9:11] == b"\x03\x03"
    old[9:11] = b"\x03\x02"
    reply = ask(port, bytes(old))
    assert (reply[0], reply[-1]) == (0x15, 70)  # an alert: protocol version
    assert context(files).options & ssl.OP_NO_RENEGOTIATION


@pytest.mark.parametrize(
    ("request_bytes", "says"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", b"HTTP/1.1 400 Bad Request"),
        (b"x" * (REQUEST_LIMIT + 1), b"HTTP/1.1 400 Bad Request"),
        (b"GET /metrics HT", b""),
        (b"", b""),
    ],
)
def test_plain_http_gets_an_answer_that_names_https(port: int, request_bytes: bytes, says: bytes) -> None:
    with closing(connect(port)) as sock:
        sock.sendall(request_bytes)
        sock.shutdown(socket.SHUT_WR)
        reply = rest(sock)
    assert reply.startswith(says)
    assert (b"https" in reply) == bool(says)
    assert b"/metrics" not in reply


def test_a_large_page_arrives_complete_while_others_are_served(port: int) -> None:
    with closing(connect_tls(port, CLIENT)) as slow:
        slow.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        first = slow.recv(1)
        assert ask_tls(port, CLIENT).endswith(b"/healthz")
        assert (first + rest(slow)).endswith(b"\r\n\r\n" + LARGE)


def test_a_request_may_come_byte_by_byte_and_its_body_is_ignored(port: int) -> None:
    with closing(connect_tls(port, CLIENT)) as sock:
        for byte in PROBE:
            sock.sendall(bytes([byte]))
        assert rest(sock).endswith(b"/healthz")
    reply = ask_tls(port, CLIENT, b"POST / HTTP/1.1\r\nContent-Length: 50000\r\n\r\n" + b"x" * 50_000)
    assert reply.startswith(b"HTTP/1.1 405 ")


def test_a_request_without_end_is_refused(port: int) -> None:
    reply = ask_tls(port, CLIENT, b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * (REQUEST_LIMIT // 4))
    assert reply.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("sent", [b"", b"\x16", hello()[:100]], ids=["nothing", "a byte", "half a hello"])
def test_a_hundred_unfinished_clients_do_not_delay_others(port: int, sent: bytes) -> None:
    socks = [connect(port) for _ in range(100)]
    try:
        for sock in socks:
            with suppress(ConnectionError):  # the oldest was closed to make room
                sock.sendall(sent)
        assert ask_tls(port, CLIENT).endswith(b"/healthz")
    finally:
        for sock in socks:
            sock.close()


def test_a_hundred_clients_one_after_the_other_are_all_served(port: int) -> None:
    with ThreadPoolExecutor(CONNECTION_LIMIT // 4) as pool:
        replies = list(pool.map(lambda _: ask_tls(port, CLIENT), range(100)))
    assert all(reply.endswith(b"/healthz") for reply in replies)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=2000), max_size=4), st.sampled_from([b"", b"\x16\x03\x01"]))
def test_garbage_instead_of_a_handshake_does_no_harm(port: int, pieces: list[bytes], first: bytes) -> None:
    with closing(connect(port)) as sock, suppress(OSError):  # the server may have closed it
        for piece in (first, *pieces):
            sock.sendall(piece)
        sock.shutdown(socket.SHUT_WR)
        rest(sock)
    assert ask_tls(port, CLIENT).endswith(b"/healthz")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_truncated_or_changed_hello_does_no_harm(port: int, data: st.DataObject) -> None:
    sent = bytearray(hello())
    place = data.draw(st.integers(0, len(sent) - 1))
    sent[place] ^= data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(sent)))
    with closing(connect(port)) as sock, suppress(ConnectionError):
        sock.sendall(sent[:end])
        sock.shutdown(socket.SHUT_WR)
        rest(sock)
    assert ask_tls(port, CLIENT).endswith(b"/healthz")


def test_a_client_that_refuses_the_certificate_affects_no_other(port: int) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        ask_tls(port, served.trusting(Authority("stranger")))
    for cut in (1, 2):
        sock = connect_tls(port, CLIENT)
        sock.sendall(PROBE[:cut])
        socket.socket(fileno=sock.detach()).close()  # disconnected without close_notify
    assert ask_tls(port, CLIENT).endswith(b"/healthz")


def test_a_handshake_has_no_more_time_than_a_request(files: TlsFiles) -> None:
    start, late = Seconds(100.0), Seconds(100.0 + TIME_LIMIT)
    listener = listen(LOOPBACK)
    with (
        selectors.DefaultSelector() as selector,
        closing(PageServer(listener, selector, served.pages, tls_options(files))) as server,
        closing(connect(listener.getsockname()[1])) as sock,
    ):
        sock.sendall(hello()[:50])
        for _ in range(3):
            for key, _ in selector.select(0.1):
                key.data(start)
        assert server.deadline() == late
        server.expire(late)
        assert server.deadline() is None
        assert rest(sock) == b""


def serial(port: int) -> int:
    """Return the serial number of the server's certificate."""
    with closing(connect_tls(port, CLIENT)) as sock:
        shown = sock.getpeercert()
        assert shown is not None
        return int(str(shown["serialNumber"]), 16)


def test_a_new_certificate_is_used_at_once(tmp_path: Path) -> None:
    log: list[str] = []
    with serving(ServingOptions(TlsAcceptor(mount(tmp_path, "..1", HOME.leaf("agent")), log.append))) as port:
        first = serial(port)
        with closing(connect_tls(port, CLIENT)) as under_way:
            mount(tmp_path, "..2", HOME.leaf("agent"))
            second = serial(port)
            under_way.sendall(PROBE)
            assert rest(under_way).endswith(b"/healthz")
        assert first != second
        assert log == []


def test_an_invalid_new_pair_is_logged_once_and_the_old_one_stays(tmp_path: Path) -> None:
    log: list[str] = []
    one, other = HOME.leaf("agent"), HOME.leaf("agent")
    with serving(ServingOptions(TlsAcceptor(mount(tmp_path, "..1", one), log.append))) as port:
        first = serial(port)
        mount(tmp_path, "..2", Pair(one.certificate, other.key))
        assert [serial(port), serial(port)] == [first, first]
        assert len(log) == 1
        assert "tls.crt" in log[0]
        assert "the last files stay in use" in log[0]
        (tmp_path / "..data").unlink()
        assert [serial(port), serial(port)] == [first, first]
        assert len(log) == 2
        mount(tmp_path, "..3", other)
        assert serial(port) != first
        assert len(log) == 2


def locked(pair: Pair) -> bytes:
    """Return a pair's key under a password."""
    key = serialization.load_pem_private_key(pair.key, None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )


ONE, OTHER = HOME.leaf("one"), HOME.leaf("other")


@pytest.mark.parametrize(
    "pair",
    [
        Pair(ONE.certificate, OTHER.key),
        Pair(b"", b""),
        Pair(b"hello", ONE.key),
        Pair(ONE.certificate, b"\xff\x00"),
        Pair(ONE.certificate, locked(ONE)),
    ],
    ids=["strangers", "empty", "no certificate", "no key", "locked"],
)
def test_an_unusable_pair_at_the_start_is_a_user_error(tmp_path: Path, pair: Pair) -> None:
    with pytest.raises(SettingsError, match=r"tls\.crt and key .*tls\.key cannot be used: .") as error:
        TlsAcceptor(mount(tmp_path, "..1", pair), lambda _: None)
    assert "PEM" in error.value.hint
