"""The sink `http`, with a real server that fails in the ways that servers fail."""

import io
import json
import re
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairlead.pipeline.endpoints.http_sink import HttpSink, check_http
from fairlead.pipeline.frame import FrameHeader
from tests.cluster.loopback import Authority
from tests.pipeline.clips import image, pyav
from tests.pipeline.pipelines import run

LIMIT = 60


class Receiver:
    """A server that takes each key once; `faults` says what happens to the next requests."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.requests: list[tuple[str, str, bytes]] = []
        self.taken: dict[str, bytes] = {}
        self.authorization = ""
        self.ended = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                receiver.answer(self)

            def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - its name there
                """Print nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/frames?camera=1"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Take a request, or fail as the list of faults says."""
        body = request.rfile.read(int(request.headers["Content-Length"]))
        key = request.headers["Idempotency-Key"]
        self.requests.append((key, request.headers["Content-Type"], body))
        self.authorization = request.headers.get("Authorization", "")
        fault = self.faults.pop(0) if self.faults else "200"
        if fault in ("200", "reset after", "slow"):
            self.taken.setdefault(key, body)
        if fault == "slow":
            self.ended.wait(LIMIT)
        if fault.startswith("reset"):
            linger = struct.pack("ii", 1, 0)  # closing sends a reset
            request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            request.close_connection = True
            request.connection.close()
            return
        request.send_response(int(fault) if fault.isdigit() else 200)
        request.send_header("Content-Length", "0")
        request.end_headers()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Yield a server in a thread."""
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever, args=(0.01,))
    thread.start()
    yield receiver
    receiver.ended.set()
    receiver.server.shutdown()
    receiver.server.server_close()
    thread.join(LIMIT)


@contextmanager
def sink(url: str, waits: list[float], **options: Any) -> Iterator[HttpSink]:
    """Yield the sink; its waits are noted instead of waited."""
    with closing(HttpSink({"url": url, **options}, "", waits.append)) as end:
        yield end


def test_a_record_is_posted_as_json_with_its_key(receiver: Receiver) -> None:
    with sink(receiver.url.replace("://", "://me:se%2Fcret@"), [], key_prefix="door.") as end:
        end.write(FrameHeader(2, 7, 0.0), {"n": 1})
        end.write(FrameHeader(2, 7, 0.0), {"n": 2}, 2)
    assert [key for key, _, _ in receiver.requests] == ["door.2-7", "door.2-7-2"]
    assert receiver.requests[0][1] == "application/json"
    assert json.loads(receiver.requests[0][2]) == {"stream": 2, "sequence": 7, "value": {"n": 1}}
    assert receiver.authorization == "Basic bWU6c2UvY3JldA=="


def test_arrays_are_posted_as_npy_or_images(receiver: Receiver) -> None:
    pyav()
    with sink(receiver.url, []) as end:
        end.write(FrameHeader(0, 0, 0.0), image(3))
    with sink(receiver.url, [], format="jpeg") as end:
        end.write(FrameHeader(0, 1, 0.0), image(3))
        with pytest.raises(ValueError, match="a record cannot be written as jpeg"):
            end.write(FrameHeader(0, 2, 0.0), {})
    (_, kind, body), (_, second, jpeg) = receiver.requests
    assert (kind, second, jpeg[:2]) == ("application/x-npy", "image/jpeg", b"\xff\xd8")
    assert np.array_equal(np.load(io.BytesIO(body)), image(3))


@pytest.mark.parametrize(
    "faults",
    [["500", "200"], ["503", "429", "200"], ["reset before", "200"], ["reset after", "200"], ["slow"]],
)
def test_a_fault_on_the_way_is_repeated_with_the_same_key(receiver: Receiver, faults: list[str]) -> None:
    receiver.faults = list(faults)
    waits: list[float] = []
    with sink(receiver.url, waits, timeout="300ms" if "slow" in faults else "60s") as end:
        for sequence in range(3):
            end.write(FrameHeader(0, sequence, 0.0), {"n": sequence})
    assert list(receiver.taken) == ["0-0", "0-1", "0-2"], "the receiver drops a repeated key"
    assert len(receiver.requests) == 3 + len(waits)
    assert waits[0] == 0.25


@pytest.mark.parametrize(
    ("faults", "retries", "words"),
    [
        (["500"] * 3, 2, "the server answered 500 Internal Server Error after 3 attempts"),
        (["404"], 2, "the server answered 404 Not Found"),
        (["301"], 2, "the server answered 301 Moved Permanently"),
        (["reset before"], 0, "Connection reset by peer|closed connection"),
        (["slow"], 0, "no answer within 0.3 s"),
    ],
)
def test_a_server_that_does_not_take_a_frame_is_named(
    receiver: Receiver, faults: list[str], retries: int, words: str
) -> None:
    receiver.faults = list(faults)
    url, timeout = receiver.url.replace("://", "://me:secret@"), "300ms" if "slow" in faults else "60s"
    with sink(url, [], retries=retries, timeout=timeout) as end, pytest.raises(ConnectionError) as caught:
        end.write(FrameHeader(0, 0, 0.0), {})
    assert re.search(words, str(caught.value))
    assert str(caught.value).startswith("POST http://me:***@127.0.0.1:")
    assert len(receiver.requests) == len(faults)


def test_a_server_that_is_away_is_named_after_bounded_attempts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    waits: list[float] = []
    with (
        sink(f"http://127.0.0.1:{port}", waits) as end,
        pytest.raises(ConnectionError, match="Connection refused after 6 attempts"),
    ):
        end.write(FrameHeader(0, 0, 0.0), {})
    assert waits == [0.25, 0.5, 1.0, 2.0, 2.0]


def test_a_server_is_verified_by_the_authorities_that_are_named(receiver: Receiver, tmp_path: Path) -> None:
    authority = Authority()
    pair = authority.leaf("server")
    (tmp_path / "server.pem").write_bytes(pair.certificate + pair.key)
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    receiver.server.socket = context.wrap_socket(receiver.server.socket, server_side=True)
    url = receiver.url.replace("http:", "https:")
    with sink(url, [], ca=str(tmp_path / "ca.pem")) as end:
        end.write(FrameHeader(0, 0, 0.0), {})
    assert list(receiver.taken) == ["0-0"]
    words = "its certificate is not trusted: .*; name its authority with ca$"
    with sink(url, []) as end, pytest.raises(ConnectionError, match=words):
        end.write(FrameHeader(0, 1, 0.0), {})


def test_certificates_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.pem holds no certificates: No such file"):
        check_http({"url": "https://h", "ca": "none.pem"}, str(tmp_path))


def test_a_pipeline_posts_every_frame_once(receiver: Receiver, tmp_path: Path) -> None:
    receiver.faults = ["200", "500", "reset after"]
    run(
        f"""
pipeline: post
stages:
  - {{name: camera, source: numbers, options: {{count: 8}}}}
  - {{name: number, run: "$S:number"}}
  - {{name: send, sink: http, options: {{url: "{receiver.url}"}}}}
""",
        tmp_path,
    )
    assert list(receiver.taken) == [f"0-{number}" for number in range(8)]
