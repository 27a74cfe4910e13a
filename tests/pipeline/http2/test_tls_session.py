"""TLS in memory: bytes arrive as they were sent, in order, and a connection that is cut or forged ends."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from fairlead.pipeline.link.http2.channel import ChannelClosedError, SocketChannel
from fairlead.pipeline.link.http2.contexts import ALPN, client_context, server_context
from fairlead.pipeline.link.http2.session import TlsSession
from tests.pipeline.hosts import certificates

RECORD = 1 << 14


@dataclass(frozen=True)
class Side:
    """One side of a connection after its handshake."""

    socket: socket.socket
    tls: TlsSession

    def channel(self) -> SocketChannel:
        return SocketChannel(self.socket, self.tls)


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[tuple[Side, Side]]:
    """Connect over TCP, and shake hands."""
    texts = certificates(tmp_path, "host").read()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname()[:2], timeout=10)
        server, _ = listener.accept()
    server.settimeout(10)
    with closing(client), closing(server):
        served = TlsSession(server_context(texts))
        shaking = threading.Thread(target=served.shake_hands, args=(server,))
        shaking.start()
        connecting = TlsSession(client_context(texts), server_name="127.0.0.1")
        connecting.shake_hands(client)
        shaking.join()
        assert (served.protocol, connecting.protocol) == (ALPN, ALPN)
        yield Side(client, connecting), Side(server, served)


def test_bytes_of_any_length_arrive_as_they_were_sent(sides: tuple[Side, Side]) -> None:
    one, other = (side.channel() for side in sides)
    sent = bytes(range(256)) * 5000
    writer = threading.Thread(
        target=one.write, args=([sent[:9], b"", sent[9:70_000], memoryview(sent)[70_000:]],)
    )
    writer.start()
    assert read(other, len(sent)) == sent
    writer.join()
    assert not one.has_unsent


def test_what_does_not_go_at_once_goes_before_what_is_written_later(sides: tuple[Side, Side]) -> None:
    one, other = (side.channel() for side in sides)
    taken = fill(one)
    assert one.write_soon(b"refused") == 0, "only one portion waits"
    writer = threading.Thread(target=one.write, args=([b"the end"],))
    writer.start()
    assert read(other, len(taken) + 7) == taken + b"the end"
    writer.join()


def test_writing_nothing_sends_what_waits(sides: tuple[Side, Side]) -> None:
    one, other = (side.channel() for side in sides)
    taken = fill(one)
    received = bytearray()
    while len(received) < len(taken):
        received += read(other, RECORD)
        one.write_soon(b"")
    assert (bytes(received), one.has_unsent) == (taken, False)


def test_what_came_whole_before_the_end_is_read(sides: tuple[Side, Side]) -> None:
    one, other = sides
    one.socket.sendall(one.tls.encrypt([memoryview(b"last words")]))
    one.socket.sendall(one.tls.encrypt([memoryview(b"cut")])[:-1])
    one.socket.close()
    channel = other.channel()
    assert read(channel, 10) == b"last words"
    with pytest.raises(ChannelClosedError, match="has ended the connection"):
        channel.read_into(memoryview(bytearray(1)), 5.0)


def test_a_forged_record_ends_the_connection(sides: tuple[Side, Side]) -> None:
    one, other = sides
    record = bytearray(one.tls.encrypt([memoryview(b"one hundred")]))
    record[-1] ^= 1
    one.socket.sendall(record)
    with pytest.raises(ChannelClosedError, match="TLS: "):
        other.channel().read_into(memoryview(bytearray(1)), 5.0)


def fill(channel: SocketChannel) -> bytes:
    """Write until the kernel takes no more, and return what the channel has taken."""
    taken = bytearray()
    while not channel.has_unsent:
        portion = bytes([len(taken) // RECORD % 251]) * RECORD
        taken += portion[: channel.write_soon(portion)]
    return bytes(taken)


def read(channel: SocketChannel, size: int) -> bytes:
    """Read exactly so many bytes."""
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = channel.read_into(view, 5.0)
        assert count, "nothing came for five seconds"
        view = view[count:]
    return bytes(data)
