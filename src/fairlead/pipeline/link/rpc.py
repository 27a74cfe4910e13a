"""The calls of a host: bidirectional streams of messages of raw bytes, from both ends."""

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from fairlead.errors import FairleadError
from fairlead.pipeline.link.http2 import grpc
from fairlead.pipeline.link.http2.channel import Buffer
from fairlead.pipeline.link.http2.connection import Http2Connection, start_reading
from fairlead.pipeline.link.http2.dial import connect
from fairlead.pipeline.link.http2.grpc import GrpcStatus
from fairlead.pipeline.link.http2.stream import Stream, StreamEndedError
from fairlead.pipeline.link.tls import HostTlsFiles
from fairlead.pipeline.link.wire import CHUNK_BYTES

SERVICE: Final = "fairlead.pipeline.v1.Host"
Message = bytes | Sequence[Buffer]
"""What is sent as one message: as it is, or in pieces."""
Received = bytes | memoryview


class StreamBrokenError(FairleadError):
    """A stream has ended, or could not begin: the other host is away, or the connection was cut."""


class StreamRefusedError(StreamBrokenError):
    """The other host refuses the stream: another attempt would be refused as well."""


class OpenedStream:
    """A stream that this host opens, on a connection of its own, once its answers are wanted."""

    def __init__(
        self, address: str, tls: HostTlsFiles | None, method: str, outgoing: Iterator[Message]
    ) -> None:
        self._address = address
        self._tls = tls
        self._path = f"/{SERVICE}/{method}"
        self._outgoing = outgoing
        self._lock = threading.Lock()
        self._cancelled = False
        self._socket: socket.socket | None = None
        self._connection: Http2Connection | None = None
        self._stream: Stream | None = None

    def __iter__(self) -> Iterator[Received]:
        """Yield what the other host sends; StreamBrokenError unless it ends the stream."""
        stream = self._open()
        try:
            yield from stream.messages()
            _raise_for(stream.wait())
        finally:
            self.cancel()

    def deliver(self, on_message: Callable[[Received], None]) -> None:
        """Call with what the other host sends, until it ends the stream; StreamBrokenError if it does not.

        The thread that reads the connection calls. A FrameError of the callback ends the stream.
        """
        stream = self._open()
        try:
            stream.deliver(on_message)
            _raise_for(stream.wait())
        finally:
            self.cancel()

    def cancel(self) -> None:
        """End the stream, from any thread."""
        with self._lock:
            self._cancelled = True
            opening = self._socket
        if self._stream is not None:
            self._stream.cancel()
        if self._connection is not None:
            self._connection.shutdown()
        elif opening is not None:
            with suppress(OSError):
                opening.shutdown(socket.SHUT_RDWR)

    def _open(self) -> Stream:
        try:
            channel = connect(self._address, self._tls, self._take_socket)
        except OSError as error:
            raise StreamBrokenError(str(error)) from error
        connection = Http2Connection(channel, most_message=CHUNK_BYTES, is_client=True)
        with self._lock:
            self._connection = connection
            if self._cancelled:
                connection.shutdown()
        stream = connection.open(
            grpc.request_headers(self._path, self._address, secure=self._tls is not None)
        )
        self._stream = stream
        start_reading(connection, f"connection with {self._address}")
        threading.Thread(target=self._send, args=(stream,), name="stream", daemon=True).start()
        return stream

    def _take_socket(self, sock: socket.socket) -> None:
        """Keep the socket that is being connected, so that `cancel` can end it."""
        with self._lock:
            self._socket = sock
            if self._cancelled:
                raise ConnectionAbortedError("the stream was cancelled")

    def _send(self, stream: Stream) -> None:
        with suppress(StreamEndedError):
            send_all(stream, self._outgoing)
        stream.end()


def send_all(stream: Stream, messages: Iterator[Message]) -> None:
    """Send messages, each as soon as there is one; StreamEndedError once the stream is over."""
    for message in messages:
        stream.send((message,) if isinstance(message, (bytes, bytearray, memoryview)) else message)


def _raise_for(status: GrpcStatus) -> None:
    if status.code != grpc.OK:
        raise (StreamRefusedError if status.code in grpc.REFUSALS else StreamBrokenError)(status.text)
