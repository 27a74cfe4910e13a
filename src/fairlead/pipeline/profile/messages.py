"""A stream on which a host is asked to measure: hellos, chunks of records, pings."""

from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any, BinaryIO, Final

from fairlead import __version__
from fairlead.pipeline.frame import FrameError
from fairlead.pipeline.link.rpc import OpenedStream, StreamBrokenError
from fairlead.pipeline.link.tls import HostTlsFiles
from fairlead.pipeline.link.wire import (
    CHUNK_DATA,
    PROTOCOL,
    Hello,
    WireMessage,
    chunk_head,
    decode,
    encode,
)

PROFILE: Final = "Profile"
"""The method of gRPC."""
MOST_RECORDED: Final = 1 << 28
"""Bytes of records that a host takes for one measurement."""


class ProfileStream:
    """The asking end."""

    def __init__(self, address: str, tls: HostTlsFiles | None, question: dict[str, Any]) -> None:
        """Connect, and ask."""
        self._outgoing: SimpleQueue[bytes | None] = SimpleQueue()
        self._stream = OpenedStream(address, tls, PROFILE, iter(self._outgoing.get, None))
        self._incoming = iter(self._stream)
        self.send(encode(Hello({"protocol": PROTOCOL, "version": __version__} | question)))

    def __enter__(self) -> "ProfileStream":
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the stream."""
        self._outgoing.put(None)
        self._stream.cancel()

    def send(self, data: bytes) -> None:
        """Send a message, without waiting for it to go."""
        self._outgoing.put(data)

    def receive(self) -> WireMessage:
        """Return the next message; StreamBrokenError or FrameError."""
        data = next(self._incoming, None)
        if data is None:
            raise StreamBrokenError("the host ended the stream")
        return decode(data)

    def receive_hello(self) -> dict[str, Any]:
        """Return the body of a hello, which must come next."""
        message = self.receive()
        if not isinstance(message, Hello):
            raise FrameError("an answer that makes no sense")
        return message.body


def file_chunks(file: BinaryIO, number: int, total: int) -> Iterator[bytes]:
    """Yield the first bytes of a file as chunks of message `number`."""
    offset = 0
    while offset < total and (data := file.read(min(CHUNK_DATA, total - offset))):
        yield chunk_head(number, offset, total) + data
        offset += len(data)
