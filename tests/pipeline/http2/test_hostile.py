"""Peers that break the rules of HTTP/2: the server hangs up on them, counts them, and serves the others."""

import random
import socket
import struct
import time
from contextlib import suppress

import pytest

from fairlead.pipeline.link.http2 import frames, grpc
from fairlead.pipeline.link.http2.connection import MOST_STREAMS
from fairlead.pipeline.link.http2.headers import header_frame
from fairlead.pipeline.link.http2.stream import STREAM_WINDOW
from fairlead.pipeline.link.rpc import OpenedStream
from tests.pipeline.http2.servers import LIMIT, RawPeer, our_server

BROKEN = {
    "data of a stream that is not open": frames.frame(frames.DATA, 0, 7, b"x"),
    "data of no stream": frames.frame(frames.DATA, 0, 0, b"x"),
    "an even stream": header_frame(2, grpc.request_headers("/", "x", secure=False), ends=False),
    "headers that no table has": frames.frame(frames.HEADERS, frames.END_HEADERS, 1, b"\xff\xff\xff\x7f"),
    "headers without an end": frames.frame(frames.HEADERS, 0, 1, b"")
    + b"".join(frames.frame(frames.CONTINUATION, 0, 1, bytes(4000)) for _ in range(9)),
    "continued by another stream": frames.frame(frames.HEADERS, 0, 1)
    + frames.frame(frames.CONTINUATION, 0, 3, b"x"),
    "a continuation of nothing": frames.frame(frames.CONTINUATION, 0, 1, b"x"),
    "a promise": frames.frame(frames.PUSH_PROMISE, 0, 1, bytes(8)),
    "settings of five bytes": frames.frame(frames.SETTINGS, 0, 0, bytes(5)),
    "a first window above the largest": frames.settings_frame({frames.INITIAL_WINDOW: 1 << 31}),
    "frames of no size": frames.settings_frame({frames.FRAME_SIZE: 5}),
    "a window of nothing": frames.window_update(0, 0),
    "a window above the largest": frames.window_update(0, frames.MOST_WINDOW) * 2,
    "a short update": frames.frame(frames.WINDOW_UPDATE, 0, 0, b"x"),
    "a long ping": frames.frame(frames.PING, 0, 0, bytes(1 << 15)),
    "a frame of 16 MiB": frames.frame_head(frames.DATA, 0, 1, (1 << 24) - 1),
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_the_server_hangs_up_on_who_breaks_the_rules(data: bytes) -> None:
    with our_server() as (server, port):
        peer = RawPeer(port)
        peer.send(data)
        assert peer.is_hung_up_on()
        peer.close()
        wait_until_refused(server, 1)
        assert list(map(bytes, OpenedStream(f"127.0.0.1:{port}", None, "Double", iter([b"x"])))) == [b"xx"]


def test_other_protocols_and_random_bytes_are_refused_and_counted() -> None:
    chance = random.Random(11)
    with our_server() as (server, port):
        texts = [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01" + bytes(60)]
        texts += [chance.randbytes(chance.randrange(24, 400)) for _ in range(10)]
        for text in texts:
            peer = RawPeer(port, greets=False)
            peer.send(text)
            assert peer.is_hung_up_on()
            peer.close()
        wait_until_refused(server, len(texts))
        socket.create_connection(("127.0.0.1", port)).close()  # a probe of the port
        assert list(map(bytes, OpenedStream(f"127.0.0.1:{port}", None, "Double", iter([b"x"])))) == [b"xx"]
        assert server.refused_connections == len(texts)


def test_random_frames_never_stop_the_server() -> None:
    chance = random.Random(12)
    with our_server() as (_, port):
        for _ in range(60):
            peer = RawPeer(port)
            peer.open()
            for _ in range(chance.randrange(1, 12)):
                body = chance.randbytes(chance.choice((0, 1, 4, 8, 40, 3000)))
                peer.send(frames.frame(chance.randrange(12), chance.choice((0, 1, 4, 8, 0x2D)), 1, body))
            peer.close()
        assert list(map(bytes, OpenedStream(f"127.0.0.1:{port}", None, "Double", iter([b"x"])))) == [b"xx"]


def test_more_data_than_was_allowed_ends_the_connection() -> None:
    with our_server() as (_, port):
        peer = RawPeer(port)
        peer.open(method="Hold")
        for _ in range(STREAM_WINDOW // (1 << 14) + 2):
            peer.message(1, bytes(1 << 14))
        assert peer.is_hung_up_on()
        peer.close()


def test_a_peer_that_asks_and_never_reads_is_cut() -> None:
    with our_server() as (_, port):
        peer = RawPeer(port)
        peer.socket.settimeout(0.2)
        ping, end = frames.frame(frames.PING, 0, 0, bytes(8)) * 1000, time.monotonic() + LIMIT
        with suppress(ConnectionError, TimeoutError):
            while time.monotonic() < end:
                peer.socket.sendall(ping)
        peer.socket.settimeout(LIMIT)
        assert peer.is_hung_up_on(), "it is not served for ever"
        peer.close()


def test_streams_beyond_the_limit_are_refused_and_the_others_go_on() -> None:
    with our_server() as (_, port):
        peer = RawPeer(port)
        for index in range(MOST_STREAMS + 3):
            peer.open(2 * index + 1)
        peer.message(1, b"x")
        refused, answered = set(), False
        for kind, stream, payload in peer.read_frames():
            if kind == frames.RST_STREAM:
                refused.add(stream)
                assert struct.unpack(">I", payload)[0] == frames.REFUSED_STREAM
            answered = answered or (kind == frames.DATA and stream == 1)
            if answered and len(refused) == 3:
                break
        assert refused == {2 * (MOST_STREAMS + index) + 1 for index in range(3)}
        peer.close()


def test_padding_is_no_part_of_a_message() -> None:
    with our_server() as (_, port):
        peer = RawPeer(port)
        peer.open()
        message = struct.pack(">BI", 0, 3) + b"abc"
        peer.data(1, bytes([9]) + message[:4] + bytes(9), frames.PADDED)
        peer.data(1, bytes([0]) + message[4:], frames.PADDED)
        body = next(payload for kind, _, payload in peer.read_frames() if kind == frames.DATA)
        assert body == struct.pack(">BI", 0, 6) + b"abcabc"
        peer.data(1, bytes([200]) + b"abc", frames.PADDED)
        assert peer.is_hung_up_on()
        peer.close()


def test_a_connection_that_says_nothing_is_asked_then_cut() -> None:
    with our_server() as (_, port):
        peer = RawPeer(port)
        kinds = [kind for kind, _, _ in peer.read_frames()]
        assert kinds[-1] == frames.PING
        peer.close()


def wait_until_refused(server: object, number: int) -> None:
    """Wait until a server has counted refused connections."""
    end = time.monotonic() + LIMIT
    while getattr(server, "refused_connections") < number:  # noqa: B009 - any server
        assert time.monotonic() < end
        time.sleep(0.01)
