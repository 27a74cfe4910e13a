"""Bytes a second and delay between two hosts, over the transport and the certificates of a run."""

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fairlead.pipeline.link.rpc import StreamRefusedError
from fairlead.pipeline.link.rpc_server import ServerStream
from fairlead.pipeline.link.tls import HostTlsFiles
from fairlead.pipeline.link.wire import CHUNK_DATA, Hello, Ping, Pong, chunk_head, decode, encode
from fairlead.pipeline.profile.messages import ProfileStream

_TRIPS: Final = 15
_FIRST: Final = 1 << 18
_LARGEST: Final = 1 << 26
_STEP: Final = 4
_ENOUGH: Final = 0.3
"""Seconds of a transfer that says what the link can do."""
_DATA: Final = bytes(CHUNK_DATA)


@dataclass(frozen=True, slots=True)
class LinkRates:
    """Both directions of a link, from the host that asks."""

    there: float
    """Bytes a second."""
    back: float
    delay_s: float
    """One way: half of a round trip."""


def measure_link(address: str, tls: HostTlsFiles | None) -> LinkRates:
    """Measure the link between this host and another one; FairleadError where it cannot be reached."""
    with ProfileStream(address, tls, {"do": "echo"}) as stream:
        stream.receive_hello()
        trip = statistics.median(_trip(stream) for _ in range(_TRIPS))
        return LinkRates(_rate(stream, trip, back=False), _rate(stream, trip, back=True), trip / 2)


def answer_echo(stream: ServerStream) -> Iterator[bytes]:
    """Yield the answers of the other end: to pings, and bytes where they are asked for."""
    for data in stream:
        message = decode(data)
        if isinstance(message, Ping):
            yield encode(Pong(message.sent, message.sent, message.sent))
        elif isinstance(message, Hello):
            size = message.body.get("bytes")
            if type(size) is not int or not 0 < size <= _LARGEST:
                raise StreamRefusedError(f"a question for {size!r} bytes")
            yield from _payload(size)
            yield encode(Pong(0.0, 0.0, 0.0))


def _payload(size: int) -> Iterator[bytes]:
    for offset in range(0, size, CHUNK_DATA):
        yield chunk_head(0, offset, size) + _DATA[: size - offset]


def _trip(stream: ProfileStream) -> float:
    begin = time.perf_counter()
    stream.send(encode(Ping(0.0)))
    _await_pong(stream)
    return time.perf_counter() - begin


def _rate(stream: ProfileStream, trip: float, *, back: bool) -> float:
    """Return the bytes a second of one direction: transfers grow until one takes long enough."""
    size = _FIRST
    while True:
        begin = time.perf_counter()
        if back:
            stream.send(encode(Hello({"bytes": size})))
        else:
            for data in _payload(size):
                stream.send(data)
            stream.send(encode(Ping(0.0)))
        _await_pong(stream)
        seconds = time.perf_counter() - begin - trip
        if seconds >= _ENOUGH or size >= _LARGEST:
            return size / max(seconds, 1e-6)
        size *= _STEP


def _await_pong(stream: ProfileStream) -> None:
    while not isinstance(stream.receive(), Pong):
        pass
