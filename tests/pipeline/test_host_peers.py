"""Peers of a host that it must refuse: without our certificate, with another authority, and with nonsense."""

import os
import random
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fairlead.errors import SettingsError
from fairlead.pipeline.hosts.certificates import write_certificates
from fairlead.pipeline.link.rpc import OpenedStream, StreamBrokenError
from fairlead.pipeline.link.tls import HostTlsFiles, require_private
from fairlead.pipeline.link.wire import Hello, decode, encode
from tests.pipeline.hosts import LIMIT, certificates, host

QUESTION = encode(Hello({"protocol": 1, "version": "x"}))


def answer(port: int, tls: HostTlsFiles | None, messages: Iterator[bytes], method: str = "Check") -> bytes:
    """Return the first answer to some messages."""
    stream = OpenedStream(f"127.0.0.1:{port}", tls, method, messages)
    try:
        return bytes(next(iter(stream), b""))
    finally:
        stream.cancel()


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_peers_without_our_certificate_are_refused_and_counted(tmp_path: Path) -> None:
    ours, others = tmp_path / "ours", tmp_path / "others"
    coordinator = certificates(ours, "coordinator")
    foreign = certificates(others, "coordinator")
    with host(tmp_path, certificates(ours, "a")) as server:
        wrong = HostTlsFiles(coordinator.ca, foreign.cert, foreign.key)
        for tls in (None, foreign, wrong):
            with pytest.raises(StreamBrokenError):
                answer(server.port, tls, iter([QUESTION]))
        context = ssl.create_default_context(cafile=coordinator.ca)
        with socket.create_connection(("127.0.0.1", server.port)) as plain:
            assert _read_after_request(context, plain) == b"", "the server hangs up"
        wait_for(lambda: server.counters()["refused_connections"] >= 4)
        message = decode(answer(server.port, coordinator, iter([QUESTION])))
        assert isinstance(message, Hello)
        assert server.counters()["runs"] == 0


def test_nonsense_is_refused_and_counted_and_the_host_serves_on(tmp_path: Path) -> None:
    chance = random.Random(7)
    with host(tmp_path, patience=0.0) as server:
        texts = [chance.randbytes(chance.randrange(0, 300)) for _ in range(20)]
        texts += [encode(Hello({"protocol": 99})), encode(Hello({"protocol": 1, "run": "no"}))]
        for text in texts:
            with pytest.raises(StreamBrokenError):
                answer(server.port, None, iter([text]), "Link")
        assert server.counters()["refused_streams"] == len(texts)
        hello = encode(Hello({"protocol": 1, "run": "r", "attempt": 1, "received": 0, "released": 0}))
        for body in (chance.randbytes(64), encode(Hello({"protocol": 1}))):
            stream = OpenedStream(f"127.0.0.1:{server.port}", None, "Run", iter([hello, body]))
            with pytest.raises(StreamBrokenError):
                list(stream)
        with pytest.raises(StreamBrokenError):
            answer(server.port, None, iter([bytes(5 << 20)]))
        assert isinstance(decode(answer(server.port, None, iter([QUESTION]))), Hello)


def test_certificates_that_are_renewed_are_used_without_a_restart(tmp_path: Path) -> None:
    coordinator, files = certificates(tmp_path, "coordinator"), certificates(tmp_path, "a")
    with host(tmp_path, files) as server:
        first = _served_certificate(server.port, coordinator)
        write_certificates(str(tmp_path), ["a,127.0.0.1"], 1)
        second = _served_certificate(server.port, coordinator)
        assert second != first
        assert isinstance(decode(answer(server.port, coordinator, iter([QUESTION]))), Hello)
        Path(files.cert).write_text("no certificate")
        assert (
            _served_certificate(server.port, HostTlsFiles(files.ca, coordinator.cert, coordinator.key))
            == second
        )


@pytest.mark.parametrize(
    ("address", "insecure", "everywhere", "is_fine"),
    [
        ("127.0.0.1:7070", True, False, True),
        ("localhost:7070", True, False, True),
        ("[::1]:7070", True, False, True),
        ("0.0.0.0:7070", True, False, False),
        ("127.0.0.1:7070", False, False, False),
        ("10.0.0.5:7070", False, True, True),
    ],
)
def test_no_certificates_only_where_they_are_waived(
    address: str, insecure: bool, everywhere: bool, is_fine: bool
) -> None:
    try:
        require_private(address, None, insecure=insecure, everywhere=everywhere)
    except SettingsError:
        assert not is_fine
    else:
        assert is_fine


def test_keys_are_readable_by_their_owner_alone_and_names_are_checked(tmp_path: Path) -> None:
    write_certificates(str(tmp_path / "keys"), ["edge-1,10.0.0.5"], 30)
    authority = (tmp_path / "keys" / "ca.crt").read_bytes()
    for path in (tmp_path / "keys").iterdir():
        assert os.stat(path).st_mode & 0o077 == 0
    write_certificates(str(tmp_path / "keys"), ["edge-2"], 30)
    assert (tmp_path / "keys" / "ca.crt").read_bytes() == authority
    for name in ("../x", "ca", "coordinator", "", "a,,b"):
        with pytest.raises(SettingsError):
            write_certificates(str(tmp_path / "keys"), [name], 30)


def _served_certificate(port: int, files: HostTlsFiles) -> bytes:
    context = ssl.create_default_context(cafile=files.ca)
    context.load_cert_chain(files.cert, files.key)
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as wrapped,
    ):
        return wrapped.getpeercert(True) or b""


def _read_after_request(context: ssl.SSLContext, plain: socket.socket) -> bytes:
    """Return what a server answers to a client without a certificate; nothing after an alert or a reset."""
    try:
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as wrapped:
            wrapped.sendall(b"GET / HTTP/1.1\r\n\r\n")
            return wrapped.recv(1)
    except OSError:
        return b""
