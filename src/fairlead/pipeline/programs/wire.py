"""The bytes between a stage and the program that it runs: frames with their payload behind the header.

The protocol is docs/reference/pipeline-protocol.md. Control messages are frames of the stream 2**32 - 1, and
the sequence number says which: 0 the end, 1 hello, 2 an error. Pure: bytes in, messages out.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np

from fairlead.pipeline.frame import (
    DTYPES,
    HEADER_BYTES,
    MAGIC,
    MOST_HEADER,
    RECORD,
    Array,
    FrameError,
    FrameHeader,
    PartHeader,
    decode_header,
    encode_header,
)
from fairlead.pipeline.ports import ANY, PortType, parse_port

PROTOCOL: Final = 1
"""The version, in the epoch of a hello; a program of another version is refused."""
CONTROL_STREAM: Final = 2**32 - 1
MOST_PAYLOAD: Final = 512 * 1024**2
"""Bytes of one frame: enough for 8K in float32."""
MOST_CONTROL: Final = 64 * 1024
MOST_FRAMES: Final = 64
"""That a program may leave unanswered."""
_LENGTH: Final = struct.Struct("<I")
_SHOWN: Final = 32
"""Bytes of nonsense that a message quotes."""


class ControlKind(IntEnum):
    """What a control message says."""

    END = 0
    HELLO = 1
    ERROR = 2


@dataclass(frozen=True, slots=True)
class ProgramMessage:
    """A frame or a control message, with its payload."""

    header: FrameHeader
    arrays: tuple[Array, ...]

    @property
    def control(self) -> ControlKind | None:
        """Which control message it is; None: a frame."""
        return ControlKind(self.header.sequence) if self.header.stream == CONTROL_STREAM else None


@dataclass(frozen=True, slots=True)
class ProgramHello:
    """What a program says of itself before the first frame."""

    inputs: PortType = ANY
    outputs: PortType = ANY
    frames: int = 1
    """How many frames it takes before it answers the first of them."""


class MessageReader:
    """Bytes of a program as messages: fill `buffer`, then say with `advance` how much of it was filled."""

    _fixed: bytearray
    """The header, as far as it has come."""
    _rest: memoryview
    """What is still to come of the header or of a part."""

    def __init__(self) -> None:
        self._begin()

    def buffer(self) -> memoryview:
        """Return where the next bytes belong; it is never empty."""
        return self._rest

    @property
    def is_between_messages(self) -> bool:
        """Whether the last message is complete, and nothing of the next has come."""
        return self._header is None and len(self._rest) == HEADER_BYTES

    def advance(self, count: int) -> ProgramMessage | None:
        """Take note of bytes in the buffer; return a message that they complete. FrameError for nonsense."""
        self._rest = self._rest[count:]
        if self._header is None:
            self._check_start()
            if len(self._rest):
                return None
            (length,) = _LENGTH.unpack_from(self._fixed, len(MAGIC))
            if len(self._fixed) < length:  # the entries of the parts follow
                self._fixed = self._fixed + bytes(length - len(self._fixed))
                self._rest = memoryview(self._fixed)[HEADER_BYTES:]
                return None
            self._on_header(decode_header(self._fixed))
        return self._next_part()

    def _begin(self) -> None:
        self._fixed = bytearray(HEADER_BYTES)
        self._rest = memoryview(self._fixed)
        self._header: FrameHeader | None = None
        self._arrays: list[Array] = []

    def _check_start(self) -> None:
        """Refuse nonsense as soon as it is seen: a program that prints text sends no whole header."""
        came = len(self._fixed) - len(self._rest)
        start = bytes(self._fixed[: min(came, len(MAGIC))])
        if not MAGIC.startswith(start):
            raise FrameError(
                f"sent {bytes(self._fixed[: min(came, _SHOWN)])!r} where a frame header begins",
                "print on the standard error: the standard output carries frames",
            )
        if came >= HEADER_BYTES:
            (length,) = _LENGTH.unpack_from(self._fixed, len(MAGIC))
            if not HEADER_BYTES <= length <= MOST_HEADER:
                raise FrameError(
                    f"sent a frame header of {length} bytes: {HEADER_BYTES} to {MOST_HEADER} are possible"
                )

    def _on_header(self, header: FrameHeader) -> None:
        total, most = sum(header.sizes), MOST_PAYLOAD
        if header.stream == CONTROL_STREAM:
            most = MOST_CONTROL
            if header.sequence not in tuple(ControlKind):
                raise FrameError(f"sent control message {header.sequence}, which does not exist")
        if total > most:
            raise FrameError(f"sent a payload of {total} bytes: at most {most} are possible")
        self._header = header

    def _next_part(self) -> ProgramMessage | None:
        """Return the message if its last byte has come; otherwise make room for the next part."""
        assert self._header is not None
        while not len(self._rest):
            if len(self._arrays) == len(self._header.parts):
                message = ProgramMessage(self._header, tuple(self._arrays))
                self._begin()
                return message
            part = self._header.parts[len(self._arrays)]
            data = np.empty(part.nbytes, np.uint8)
            self._arrays.append(data.view(DTYPES[part.dtype]).reshape(part.shape))
            self._rest = data.data
        return None


def message_views(header: FrameHeader, arrays: Sequence[Array]) -> list[memoryview]:
    """Return the bytes of a message, without a copy of arrays that are contiguous."""
    views = [np.ascontiguousarray(array).reshape(-1).view(np.uint8).data for array in arrays]
    return [memoryview(encode_header(header)), *(view for view in views if len(view))]


def hello_views(stage: str, inputs: int, frames: int) -> list[memoryview]:
    """Return the hello that a program receives first."""
    body = json.dumps({"stage": stage, "inputs": inputs, "frames": frames}).encode()
    data = np.frombuffer(body, np.uint8)
    parts = (PartHeader.of_record(data.nbytes),)
    header = FrameHeader(CONTROL_STREAM, ControlKind.HELLO, 0.0, epoch=PROTOCOL, parts=parts)
    return message_views(header, (data,))


def end_views() -> list[memoryview]:
    """Return the message after the last frame."""
    return message_views(FrameHeader(CONTROL_STREAM, ControlKind.END, 0.0), ())


def parse_hello(message: ProgramMessage) -> ProgramHello:
    """Return what a program says of itself; FrameError for another message, or a hello of another form."""
    if message.control is not ControlKind.HELLO:
        raise FrameError("sent another message before its hello", "send the hello first")
    if message.header.epoch != PROTOCOL:
        raise FrameError(
            f"speaks version {message.header.epoch} of the protocol, not {PROTOCOL}",
            "build it with the fairlead_stage.h of this version",
        )
    if len(message.arrays) != 1 or message.header.parts[0].dtype != RECORD:
        raise FrameError("sent a hello that is not one record")
    try:
        body = json.loads(message.arrays[0].tobytes())
    except ValueError as error:
        raise FrameError(f"sent a hello that is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise FrameError("sent a hello that is not a JSON object")
    return _read_hello(body)


def error_text(message: ProgramMessage) -> str:
    """Return the reason that an error message states, in one line."""
    text = b" ".join(array.tobytes() for array in message.arrays).decode(errors="replace")
    return " ".join("".join(each if each.isprintable() else " " for each in text).split()) or "no reason"


def _read_hello(body: Mapping[str, Any]) -> ProgramHello:
    frames = body.get("frames", 1)
    if type(frames) is not int or not 1 <= frames <= MOST_FRAMES:
        raise FrameError(f"sent a hello with frames {frames!r}: 1 to {MOST_FRAMES} are possible")
    ports = []
    for key in ("in", "out"):
        try:
            ports.append(parse_port(str(body.get(key, "Any"))))
        except ValueError as error:
            raise FrameError(f"sent a hello with {key}: {error}") from None
    return ProgramHello(ports[0], ports[1], frames)
