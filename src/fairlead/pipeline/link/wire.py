"""The messages of a stream between two hosts: raw bytes, little endian, one message of gRPC each.

kind u8, 7 zero bytes, then
1 hello   JSON
2 chunk   message number u64, offset u64, length of the whole message u64, then bytes of the message
3 ack     messages received u64, messages released u64
4 ping    time f64
5 pong    the time of the ping f64, time of its arrival f64, time of this answer f64
6 close   nothing
"""

import json
import math
import struct
from dataclasses import dataclass
from typing import Any, Final

from fairlead.pipeline.frame import FrameError

PROTOCOL: Final = 1
"""The version that a hello states; both ends must have the same."""
CHUNK_BYTES: Final = 1 << 22
"""The most bytes of one message of gRPC: its own limit, unless an end states another."""
MOST_MESSAGE: Final = 1 << 30
"""The most bytes of a message in all its chunks."""
_HELLO, _CHUNK, _ACK, _PING, _PONG, _CLOSE = range(1, 7)
_KIND: Final = struct.Struct("<B7x")
_CHUNK_HEAD: Final = struct.Struct("<B7xQQQ")
_ACK_BODY: Final = struct.Struct("<B7xQQ")
_PING_BODY: Final = struct.Struct("<B7xd")
_PONG_BODY: Final = struct.Struct("<B7xddd")
_ZERO: Final = bytes(7)
CHUNK_HEAD_BYTES: Final = _CHUNK_HEAD.size
CHUNK_DATA: Final = CHUNK_BYTES - CHUNK_HEAD_BYTES
"""The most bytes of a message in one chunk."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message of either side on every connection."""

    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a message."""

    number: int
    offset: int
    total: int
    data: memoryview


@dataclass(frozen=True, slots=True)
class Ack:
    """How many messages were received, and how many places are free again; both since the first one."""

    received: int
    released: int


@dataclass(frozen=True, slots=True)
class Ping:
    """A question for the other clock."""

    sent: float


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer to a ping."""

    sent: float
    arrived: float
    answered: float


@dataclass(frozen=True, slots=True)
class Close:
    """Says that this side has left the stream for good."""


WireMessage = Hello | Chunk | Ack | Ping | Pong | Close


def encode(message: Hello | Ack | Ping | Pong | Close) -> bytes:
    """Pack a message without payload."""
    match message:
        case Hello(body):
            return _KIND.pack(_HELLO) + json.dumps(body).encode()
        case Ack(received, released):
            return _ACK_BODY.pack(_ACK, received, released)
        case Ping(sent):
            return _PING_BODY.pack(_PING, sent)
        case Pong(sent, arrived, answered):
            return _PONG_BODY.pack(_PONG, sent, arrived, answered)
        case Close():
            return _KIND.pack(_CLOSE)


def chunk_head(number: int, offset: int, total: int) -> bytes:
    """Return what precedes the bytes of a chunk."""
    return _CHUNK_HEAD.pack(_CHUNK, number, offset, total)


def decode(data: bytes | memoryview) -> WireMessage:
    """Unpack a message, whose chunk refers to it; FrameError for anything that is none."""
    if len(data) < _KIND.size or len(data) > CHUNK_BYTES or data[1:8] != _ZERO:
        raise FrameError(f"a message of {len(data)} bytes that is none of a link")
    kind = data[0]
    if kind == _CHUNK:
        return _decode_chunk(data)
    if kind == _HELLO:
        return Hello(_decode_json(data))
    if kind == _ACK and len(data) == _ACK_BODY.size:
        return Ack(*_ACK_BODY.unpack(data)[1:])
    if kind == _PING and len(data) == _PING_BODY.size:
        return Ping(*_finite(_PING_BODY.unpack(data)[1:]))
    if kind == _PONG and len(data) == _PONG_BODY.size:
        return Pong(*_finite(_PONG_BODY.unpack(data)[1:]))
    if kind == _CLOSE and len(data) == _KIND.size:
        return Close()
    raise FrameError(f"a message of kind {kind} with {len(data)} bytes")


def _decode_chunk(data: bytes | memoryview) -> Chunk:
    if len(data) < _CHUNK_HEAD.size:
        raise FrameError(f"a chunk of {len(data)} bytes")
    _, number, offset, total = _CHUNK_HEAD.unpack_from(data)
    content = memoryview(data)[_CHUNK_HEAD.size :]
    if not 0 < total <= MOST_MESSAGE or not content or offset + len(content) > total:
        raise FrameError(f"bytes {offset} to {offset + len(content)} of a message of {total} bytes")
    return Chunk(number, offset, total, content)


def _decode_json(data: bytes | memoryview) -> dict[str, Any]:
    try:
        body = json.loads(bytes(data[_KIND.size :]))
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise FrameError("a hello that is no JSON object")
    return body


def _finite(values: tuple[float, ...]) -> tuple[float, ...]:
    if not all(math.isfinite(value) for value in values):
        raise FrameError("a time that is no number")
    return values
