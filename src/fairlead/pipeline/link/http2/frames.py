"""Frames of HTTP/2 (RFC 9113) as bytes, and back. Pure."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairlead.pipeline.frame import FrameError

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client sends first."""
HEAD_BYTES: Final = 9
LEAST_FRAME: Final = 1 << 14
"""The most bytes of a frame that every peer takes."""
FIRST_WINDOW: Final = (1 << 16) - 1
MOST_WINDOW: Final = (1 << 31) - 1
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    range(10)
)
END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
WITH_PRIORITY: Final = 0x20
HEADER_TABLE_SIZE, ENABLE_PUSH, MOST_STREAMS, INITIAL_WINDOW, FRAME_SIZE, HEADER_LIST = range(1, 7)
NO_ERROR, PROTOCOL_ERROR = range(2)
REFUSED_STREAM, CANCEL = 7, 8
_HEAD: Final = struct.Struct(">HBBBI")
_SETTING: Final = struct.Struct(">HI")
_NUMBER: Final = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class FrameHead:
    """What precedes the payload of a frame."""

    length: int
    kind: int
    flags: int
    stream: int


def frame_head(kind: int, flags: int, stream: int, length: int) -> bytes:
    """Return what precedes a payload of this length."""
    return _HEAD.pack(length >> 8, length & 0xFF, kind, flags, stream)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a whole frame."""
    return frame_head(kind, flags, stream, len(payload)) + payload


def read_head(data: bytes | bytearray | memoryview) -> FrameHead:
    """Unpack what precedes a payload."""
    high, low, kind, flags, stream = _HEAD.unpack(data)
    return FrameHead(high << 8 | low, kind, flags, stream & MOST_WINDOW)


def settings_frame(values: Mapping[int, int]) -> bytes:
    """Return the settings of this side."""
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(key, value) for key, value in values.items()))


def read_settings(payload: bytes) -> dict[int, int]:
    """Unpack settings; FrameError where they make no sense."""
    if len(payload) % _SETTING.size:
        raise FrameError(f"settings of {len(payload)} bytes")
    values = dict(_SETTING.iter_unpack(payload))
    if values.get(INITIAL_WINDOW, 0) > MOST_WINDOW:
        raise FrameError("a first window above the largest one")
    if not LEAST_FRAME <= values.get(FRAME_SIZE, LEAST_FRAME) < 1 << 24:
        raise FrameError(f"frames of {values[FRAME_SIZE]} bytes in the settings")
    return values


def window_update(stream: int, increment: int) -> bytes:
    """Return the frame that lets the other side send more."""
    return frame(WINDOW_UPDATE, 0, stream, _NUMBER.pack(increment))


def reset(stream: int, code: int) -> bytes:
    """Return the frame that ends a stream at once."""
    return frame(RST_STREAM, 0, stream, _NUMBER.pack(code))


def goaway(last: int, code: int) -> bytes:
    """Return the frame that ends a connection; `last` is the last stream that was taken."""
    return frame(GOAWAY, 0, 0, _NUMBER.pack(last) + _NUMBER.pack(code))


def read_number(payload: bytes) -> int:
    """Unpack the first number of a payload, such as an increment; FrameError if it is too short."""
    if len(payload) < _NUMBER.size:
        raise FrameError(f"a payload of {len(payload)} bytes")
    return int(_NUMBER.unpack_from(payload)[0]) & MOST_WINDOW


def header_block(head: FrameHead, payload: bytes) -> bytes:
    """Return the part of a header block that a HEADERS frame holds."""
    first, end = 0, len(payload)
    if head.flags & PADDED:
        first, end = 1, end - (payload[0] if payload else end + 1)
    if head.flags & WITH_PRIORITY:
        first += 5
    if first > end:
        raise FrameError("more padding than payload")
    return payload[first:end]
