"""Streams between this gRPC and grpcio's, which is the reference: both ways, plain and with TLS."""

import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from fairlead.pipeline.link.rpc import SERVICE, OpenedStream, StreamBrokenError, StreamRefusedError
from fairlead.pipeline.link.tls import HostTlsFiles
from tests.pipeline.hosts import certificates
from tests.pipeline.http2.servers import grpcio_channel, grpcio_server, our_server

SIZES = (0, 1, 5, 16383, 16384, 65535, 65536, 1 << 20, (1 << 21) - 7)


def messages() -> list[bytes]:
    """Return messages of many sizes, each with its own bytes."""
    return [bytes([index % 251]) * size for index, size in enumerate(SIZES * 2)]


@pytest.fixture(params=["plain", "tls"])
def tls(request: pytest.FixtureRequest, tmp_path: Path) -> HostTlsFiles | None:
    """Certificates, or none."""
    return certificates(tmp_path, "host") if request.param == "tls" else None


@pytest.fixture(params=["ours", "grpcio"])
def port(request: pytest.FixtureRequest, tls: HostTlsFiles | None) -> Iterator[int]:
    """A port where one of the two serves."""
    if request.param == "grpcio":
        with grpcio_server(tls) as port:
            yield port
    else:
        with our_server(tls) as (_, port):
            yield port


def opened(port: int, tls: HostTlsFiles | None, method: str, sent: Iterator[bytes]) -> OpenedStream:
    """Return a stream of ours."""
    return OpenedStream(f"127.0.0.1:{port}", tls, method, sent)


def test_our_client_gets_every_answer_in_order(port: int, tls: HostTlsFiles | None) -> None:
    sent = messages()
    stream = opened(port, tls, "Double", iter(sent))
    assert [bytes(answer) for answer in stream] == [2 * message for message in sent]
    stream.cancel()


def test_a_grpcio_client_gets_every_answer_in_order(port: int, tls: HostTlsFiles | None) -> None:
    sent = messages()
    with grpcio_channel(port, tls) as channel:
        calls = [channel.stream_stream(f"/{SERVICE}/Double")(iter(sent)) for _ in range(3)]
        for call in calls:  # three streams of one connection
            assert list(call) == [2 * message for message in sent]


def test_a_refusal_arrives_with_its_reason(port: int, tls: HostTlsFiles | None) -> None:
    stream = opened(port, tls, "Refuse", iter([b"x"]))
    received: list[bytes] = []
    with pytest.raises(StreamRefusedError, match=r"not tonight: 100 % full, naïve$"):
        received.extend(map(bytes, stream))
    assert received == [b"first"]
    with grpcio_channel(port, tls) as channel:
        call = channel.stream_stream(f"/{SERVICE}/Refuse")(iter([b"x"]))
        with pytest.raises(grpc.RpcError):
            list(call)
        assert call.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert call.details().startswith("not tonight: 100 % full, naïve")


def test_an_unknown_method_is_refused(port: int, tls: HostTlsFiles | None) -> None:
    with pytest.raises(StreamRefusedError):
        list(opened(port, tls, "Nothing", iter([b"x"])))
    with grpcio_channel(port, tls) as channel:
        call = channel.stream_stream(f"/{SERVICE}/Nothing")(iter([]))
        with pytest.raises(grpc.RpcError):
            list(call)
        assert call.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_message_above_the_limit_ends_its_stream_alone(tls: HostTlsFiles | None) -> None:
    with our_server(tls) as (_, port), grpcio_channel(port, tls) as channel:
        double = channel.stream_stream(f"/{SERVICE}/Double")
        good_ended = threading.Event()

        def patient() -> Iterator[bytes]:
            yield b"a"
            good_ended.wait(60)
            yield b"b"

        good = double(patient())
        assert next(good) == b"aa"
        bad = double(iter([bytes((1 << 22) + 1)]))
        with pytest.raises(grpc.RpcError):
            list(bad)
        good_ended.set()
        assert list(good) == [b"bb"]


def test_a_stream_that_nobody_reads_holds_its_sender_back(port: int, tls: HostTlsFiles | None) -> None:
    """A sender gets no further than the windows of both directions and the socket."""
    sent: list[int] = []

    def endless() -> Iterator[bytes]:
        for number in range(1000):
            sent.append(number)
            yield bytes(1 << 20)

    stream = opened(port, tls, "Double", endless())
    answers = iter(stream)
    assert len(next(answers)) == 2 << 20
    for _ in range(20):
        before = len(sent)
        threading.Event().wait(0.1)
        if len(sent) == before:
            break
    assert len(sent) < 500
    assert len(next(answers)) == 2 << 20
    stream.cancel()
    with pytest.raises(StreamBrokenError):
        list(answers)


def test_two_sides_that_both_send_do_not_wait_for_each_other(tls: HostTlsFiles | None) -> None:
    """Every message is answered by twice as much, and the answers fill both sockets."""
    with our_server(tls) as (_, port):
        sent = [bytes(1 << 20)] * 60
        stream = opened(port, tls, "Double", iter(sent))
        assert sum(map(len, stream)) == 120 << 20


def test_nobody_there_is_said_in_one_line(tmp_path: Path) -> None:
    with our_server() as (_, port):
        pass
    with pytest.raises(StreamBrokenError, match=rf"^127.0.0.1:{port}: connection refused$"):
        list(opened(port, None, "Double", iter([])))
    for address in ("127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000"):
        with pytest.raises(StreamBrokenError, match="not HOST:PORT"):
            list(OpenedStream(address, None, "Double", iter([])))
    ours = certificates(tmp_path / "a", "host")
    other = certificates(tmp_path / "b", "host")
    with our_server(ours) as (_, port), pytest.raises(StreamBrokenError, match="certificate is refused"):
        list(opened(port, other, "Double", iter([])))
    with our_server() as (_, port), pytest.raises(StreamBrokenError):
        list(opened(port, ours, "Double", iter([])))
