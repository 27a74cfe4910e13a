"""The web server: a few pages, and misbehaving clients."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import SettingsError, UserError
from fairlead.inventory import Inventory, Machine
from fairlead.serve.agent.agent import Agent
from fairlead.serve.agent.loop import serve
from fairlead.serve.web.httpd import CONNECTION_LIMIT, REQUEST_LIMIT, Response, answer, listen
from fairlead.settings import Address
from fairlead.settings.agent import AgentSettings
from fairlead.telemetry import Sample
from fairlead.units import Seconds
from tests.serve.web.served import LOOPBACK, PATIENCE, ask, connect, rest


class EmptyMachine:
    """A machine without accelerators."""

    def scan(self) -> Inventory:
        return Inventory(Machine())

    def sample(self, inventory: Inventory, now: Seconds, date: Seconds) -> tuple[Sample, ...]:
        return ()

    def inventory_with_health(self) -> Inventory:
        return Inventory(Machine())


@pytest.fixture
def port() -> Iterator[int]:
    """Serve from a thread, and stop it at the end."""
    listener = listen(LOOPBACK)
    here, there = socket.socketpair()
    agent = Agent(AgentSettings(), EmptyMachine(), lambda _: None)
    thread = threading.Thread(target=serve, args=(agent, listener, here, None))
    thread.start()
    yield listener.getsockname()[1]
    there.send(b"stop")
    thread.join(PATIENCE)
    assert not thread.is_alive()
    here.close()
    there.close()


def test_serves_its_pages(port: int) -> None:
    reply = ask(port, b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\nAccept: text/plain\r\n\r\n")
    head, _, body = reply.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert b"fairlead_build_info" in body
    for path in (b"/", b"/healthz", b"/readyz"):
        assert ask(port, b"GET " + path + b" HTTP/1.0\n\n").startswith(b"HTTP/1.1 200 OK\r\n")
    assert ask(port, b"GET /etc/passwd HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 404 ")


def test_a_head_is_the_get_without_its_body(port: int) -> None:
    get = ask(port, b"GET /healthz HTTP/1.1\r\n\r\n")
    assert ask(port, b"HEAD /healthz HTTP/1.1\r\n\r\n") == get.removesuffix(b"alive\n")


def test_other_methods_are_refused_and_the_answer_survives_their_body(port: int) -> None:
    reply = ask(port, b"POST /metrics HTTP/1.1\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000)
    assert reply.startswith(b"HTTP/1.1 405 Method Not Allowed\r\n")
    assert b"\r\nAllow: GET, HEAD\r\n" in reply


def test_a_request_without_end_is_refused(port: int) -> None:
    reply = ask(port, b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * REQUEST_LIMIT)
    assert reply.startswith(b"HTTP/1.1 431 ")


def test_a_silent_client_does_not_delay_others(port: int) -> None:
    silent = [connect(port) for _ in range(CONNECTION_LIMIT * 2)]
    try:
        assert ask(port, b"GET /healthz HTTP/1.1\r\n\r\n").endswith(b"alive\n")
        assert rest(silent[0]) == b""  # the oldest was closed to make room
    finally:
        for sock in silent:
            sock.close()


def test_clients_that_disconnect_do_no_harm(port: int) -> None:
    for request in (b"", b"GET /met", b"GET /metrics HTTP/1.1\r\n\r\n"):
        for _ in range(10):
            with closing(connect(port)) as sock:
                sock.sendall(request)
    assert ask(port, b"GET /healthz HTTP/1.1\r\n\r\n").endswith(b"alive\n")


def test_a_request_may_come_byte_by_byte(port: int) -> None:
    with closing(connect(port)) as sock:
        for byte in b"GET /healthz HTTP/1.1\r\n\r\n":
            sock.sendall(bytes([byte]))
        assert rest(sock).endswith(b"alive\n")


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET / HTTP/1.1", 200),
        (b"get / HTTP/1.1", 405),
        (b"DELETE / HTTP/1.1", 405),
        (b"GET /", 400),
        (b"GET  / HTTP/1.1", 400),
        (b"GET / HTTP/2", 400),
        (b"GET / x HTTP/1.1", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00", 400),
        (b"", 400),
    ],
)
def test_request_lines(request_line: bytes, status: int) -> None:
    reply = answer(request_line + b"\r\n\r\n", lambda path: Response(200, path.encode()))
    assert reply.startswith(f"HTTP/1.1 {status} ".encode())


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda b: b"GET /" + b + b" HTTP/1.1\r\n\r\n"))
def test_any_request_has_one_valid_answer(request: bytes) -> None:
    head, _, body = answer(request, lambda path: Response(200, path.encode("utf-8"))).partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0].startswith(b"HTTP/1.1 ")
    assert b"Connection: close" in lines
    assert f"Content-Length: {len(body)}".encode() in lines or request.startswith(b"HEAD")


@pytest.mark.parametrize("host", ["::1%nowhere", "a..b", "a" * 300, "é\ud800"])
def test_a_host_that_does_not_resolve_is_a_user_error(host: str) -> None:
    with pytest.raises(SettingsError, match="not an address of this machine"):
        listen(Address(host, 0))


def test_a_port_in_use_is_a_user_error() -> None:
    with (
        listen(LOOPBACK) as taken,
        pytest.raises(UserError, match=r"cannot listen on .*: address already in use"),
    ):
        listen(Address("127.0.0.1", taken.getsockname()[1]))


def test_an_address_of_another_machine_is_a_user_error() -> None:
    with pytest.raises(UserError, match=r"cannot listen on 192\.0\.2\.1:0"):
        listen(Address("192.0.2.1", 0))


def test_no_host_means_every_interface() -> None:
    with listen(Address("", 0)) as sock, closing(connect(sock.getsockname()[1])):
        pass
