"""Hostile clients: slow ones, greedy ones, and requests that could mean two things."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fairlead.store.http.limits import ServerLimits
from fairlead.units import Seconds
from tests.store.stores import Store, received_of, store

HASTY = ServerLimits(
    connections=64, threads=4, head=Seconds(0.3), silence=Seconds(0.3), pace=1000, linger=Seconds(0.3)
)
BOMB = (
    '<?xml version="1.0"?><!DOCTYPE b [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    '<D:propfind xmlns:D="DAV:"><D:prop><x>&b;</x></D:prop></D:propfind>'
)
EXTERNAL = (
    '<?xml version="1.0"?><!DOCTYPE b [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
    '<D:propertyupdate xmlns:D="DAV:"><D:set><D:prop><x>&a;</x></D:prop></D:set></D:propertyupdate>'
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield a store with usual limits."""
    with store(tmp_path_factory.mktemp("attacks")) as running:
        running.ask("PUT", "/file", b"x")
        yield running


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield a store that waits for nobody for long."""
    with store(tmp_path_factory.mktemp("hasty"), limits=HASTY) as running:
        running.ask("PUT", "/file", b"x")
        yield running


def exchange(served: Store, request: bytes) -> bytes:
    """Return what the store answers until it closes the connection."""
    with served.connection() as client:
        client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(1 << 16), b""))


@pytest.mark.parametrize(
    "body", [BOMB, EXTERNAL, "<a>" * 50_000, "<a", "", '<?xml version="1.1"?><a/>', "\0"]
)
@pytest.mark.parametrize("method", ["PROPFIND", "PROPPATCH", "LOCK"])
def test_hostile_xml_is_refused(served: Store, method: str, body: str) -> None:
    answer = served.ask(method, "/file", body.encode(), Depth="0")
    assert answer.status == 400 or (not body and (method, answer.status) == ("PROPFIND", 207))
    assert b"root:" not in answer.body
    assert served.ask("UNLOCK", "/file").status == 400


def test_large_xml_is_refused_before_it_is_read(served: Store) -> None:
    assert served.ask("PROPFIND", "/", b" " * 300_000, Depth="0").status == 413
    assert served.ask("PROPFIND", "/", iter([b" " * 300_000]), Depth="0").status == 413
    request = served.head("LOCK", "/x", "Content-Length: 99999999999")
    assert exchange(served, request).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (("Content-Length: 5", "Content-Length: 5"), 400),
        (("Content-Length: 5", "Transfer-Encoding: chunked"), 400),
        (("Content-Length: +5",), 400),
        (("Content-Length: -5",), 400),
        (("Content-Length: 5, 5",), 400),
        (("Transfer-Encoding: chunked", "Transfer-Encoding: identity"), 400),
        (("Transfer-Encoding: gzip, chunked",), 501),
        (("Authorization: Bearer second",), 400),
        (("Content-Length: 5", "Content-Encoding: gzip"), 415),
        (("Content-Length: 5", "Content-Range: bytes 0-4/10"), 400),
        (("X: " + "x" * 40_000,), 413),
        (("no colon",), 400),
        (("Content-Length: 99999999999999999999",), 507),
    ],
)
def test_an_ambiguous_or_oversized_head_is_refused(
    served: Store, lines: tuple[str, ...], status: int
) -> None:
    answer = exchange(served, served.head("PUT", "/ambiguous", *lines) + b"hello")
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert answer.count(b"HTTP/1.1 ") == 1
    assert not (served.root / "ambiguous").exists()


def test_a_long_path_is_refused(served: Store) -> None:
    assert exchange(served, served.head("GET", "/" + "x" * 40_000)).startswith(b"HTTP/1.1 414 ")
    assert served.ask("GET", "/x" * 129).status == 414
    assert served.ask("PUT", "/" + "x" * 256, b"").status == 414


def test_a_refused_upload_gets_its_answer_before_its_body(served: Store) -> None:
    # The client sends on meanwhile: the answer must not be lost by a reset.
    request = b"PUT /big HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n" + b"x" * 4_000_000
    assert exchange(served, request).startswith(b"HTTP/1.1 401 ")


def test_a_client_that_asks_first_sends_nothing_in_vain(served: Store) -> None:
    with served.connection() as client:
        client.sendall(served.head("PUT", "/no/folder", "Content-Length: 5", "Expect: 100-continue"))
        assert client.recv(1000).startswith(b"HTTP/1.1 409 ")
    with served.connection() as client:
        client.sendall(served.head("PUT", "/asked", "Content-Length: 5", "Expect: 100-continue"))
        assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"hello")
        assert client.recv(1000).startswith(b"HTTP/1.1 201 ")


def test_requests_in_a_row_are_answered_in_a_row(served: Store) -> None:
    put = served.head("PUT", "/row", "Content-Length: 5") + b"hello"
    get = served.head("GET", "/row", "Connection: close")
    answer = exchange(served, put + get)
    assert answer.startswith(b"HTTP/1.1 201 ")
    assert b"HTTP/1.1 200 OK" in answer
    assert answer.endswith(b"hello")


def test_slow_heads_neither_stop_others_nor_stay(hasty: Store) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(hasty.connection()) for _ in range(200)]
        for client in clients:
            try:
                client.sendall(b"GET /file HTTP/1.1\r\nHost:")
            except ConnectionError:  # it had to make room for another
                continue
        assert hasty.ask("GET", "/file").body == b"x"
        for client in clients:
            assert ended(client)


def test_slow_bodies_end(hasty: Store) -> None:
    with hasty.connection() as slow:
        slow.sendall(hasty.head("PUT", "/slow", "Content-Length: 1000000"))
        trickle = threading.Thread(target=drip, args=(slow,))
        trickle.start()
        assert ended(slow)
        trickle.join()
    assert hasty.files() == {"file": b"x"}
    assert hasty.staged() == []


def test_slow_bodies_leave_threads_for_others(tmp_path: Path) -> None:
    with store(tmp_path, limits=ServerLimits(threads=4)) as served, ExitStack() as stack:
        for number in range(3):
            client = stack.enter_context(served.connection())
            client.sendall(served.head("PUT", f"/slow-{number}", "Content-Length: 10") + b"x")
        while len(served.staged()) < 3:
            pass
        refused = served.ask("PUT", "/more", b"x")
        assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
        assert served.ask("PROPFIND", "/", Depth="0").status == 207


def test_a_client_that_does_not_read_its_answer_is_left(hasty: Store) -> None:
    with (hasty.root / "large").open("wb") as file:
        file.truncate(64 << 20)
    with ExitStack() as stack:
        clients = [stack.enter_context(hasty.connection()) for _ in range(2 * HASTY.threads)]
        for client in clients:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.sendall(hasty.head("GET", "/large"))
        # All threads send; this waits for one of them.
        assert hasty.ask("GET", "/file").body == b"x"
    (hasty.root / "large").unlink()


def ended(client: socket.socket) -> bool:
    """Wait until the store ends a connection, and return that it has."""
    return received_of(client) == b"" or b"" in iter(lambda: received_of(client), None)


def drip(client: socket.socket) -> None:
    """Send a byte now and then, until the connection ends."""
    pause = threading.Event()
    try:
        for _ in range(1000):
            client.sendall(b"x")
            pause.wait(0.05)
    except OSError:
        return
