"""Servers of streams for tests: ours and that of grpcio; and a peer that writes raw bytes."""

import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import grpc

from fairlead.pipeline.link.http2 import frames
from fairlead.pipeline.link.http2.grpc import request_headers
from fairlead.pipeline.link.http2.headers import header_frame
from fairlead.pipeline.link.rpc import SERVICE, Message, StreamRefusedError
from fairlead.pipeline.link.rpc_server import RpcServer, ServerStream
from fairlead.pipeline.link.tls import HostTlsFiles

LIMIT = 60.0


def double(stream: ServerStream) -> Iterator[Message]:
    """Answer every message with itself, twice."""
    for message in stream:
        yield (message, message)


def refuse(stream: ServerStream) -> Iterator[Message]:
    """Refuse after the first message, with a sentence that needs escapes."""
    next(iter(stream))
    yield b"first"
    raise StreamRefusedError("not tonight: 100 % full, naïve\nsecond line")


def hold(stream: ServerStream) -> Iterator[Message]:
    """Read one message, and no other until the stream is over."""
    over = threading.Event()
    stream.on_end(over.set)
    next(iter(stream))
    over.wait(LIMIT)
    yield b""


@contextmanager
def our_server(tls: HostTlsFiles | None = None) -> Iterator[tuple[RpcServer, int]]:
    """Yield a server of ours and its port."""
    server = RpcServer({"Double": double, "Refuse": refuse, "Hold": hold}, lambda line: None)
    port = server.listen("127.0.0.1:0", tls)
    server.start()
    try:
        yield server, port
    finally:
        server.stop()


@contextmanager
def grpcio_server(tls: HostTlsFiles | None = None) -> Iterator[int]:
    """Yield the port of a server of grpcio with the same methods."""

    def double_all(requests: Iterator[bytes], _: Any) -> Iterator[bytes]:
        for request in requests:
            yield request + request

    def refuse_all(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        next(requests)
        yield b"first"
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not tonight: 100 % full, naïve")

    methods = {
        name: grpc.stream_stream_rpc_method_handler(method)
        for name, method in (("Double", double_all), ("Refuse", refuse_all))
    }
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    if tls is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        texts = tls.read()
        pair = [(texts.key, texts.cert)]
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials(pair, texts.ca, True))
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


def grpcio_channel(port: int, tls: HostTlsFiles | None = None) -> grpc.Channel:
    """Return a channel of grpcio, which takes messages of any length."""
    options = (("grpc.max_receive_message_length", -1),)
    if tls is None:
        return grpc.insecure_channel(f"127.0.0.1:{port}", options)
    texts = tls.read()
    credentials = grpc.ssl_channel_credentials(texts.ca, texts.key, texts.cert)
    return grpc.secure_channel(f"127.0.0.1:{port}", credentials, options)


class RawPeer:
    """A client that writes whatever a test wants."""

    def __init__(self, port: int, *, greets: bool = True) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), LIMIT)
        if greets:
            self.socket.sendall(frames.PREFACE + frames.settings_frame({}))

    def send(self, data: bytes) -> None:
        """Write bytes; nothing if the server has hung up."""
        with suppress(OSError):
            self.socket.sendall(data)

    def open(self, number: int = 1, method: str = "Double") -> None:
        """Open a stream."""
        headers = request_headers(f"/{SERVICE}/{method}", "test", secure=False)
        self.send(header_frame(number, headers, ends=False))

    def data(self, number: int, body: bytes, flags: int = 0) -> None:
        """Send one frame of data."""
        self.send(frames.frame(frames.DATA, flags, number, body))

    def message(self, number: int, body: bytes) -> None:
        """Send one message, in one frame."""
        self.data(number, struct.pack(">BI", 0, len(body)) + body)

    def read_frames(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield kind, stream and payload of every frame, until the server hangs up."""
        try:
            while len(head := self.socket.recv(frames.HEAD_BYTES, socket.MSG_WAITALL)) == frames.HEAD_BYTES:
                facts = frames.read_head(head)
                payload = self.socket.recv(facts.length, socket.MSG_WAITALL) if facts.length else b""
                yield facts.kind, facts.stream, payload
        except ConnectionError:
            return

    def is_hung_up_on(self) -> bool:
        """Return whether the server ends the connection."""
        for _ in self.read_frames():
            pass
        return True

    def close(self) -> None:
        """Hang up."""
        self.socket.close()
