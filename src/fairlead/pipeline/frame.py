"""Frames: a fixed header that travels with every frame, and the arrays that it describes.

The header is little endian: 96 bytes, then one entry for each part.

    magic "FLF1", header length u32, stream u32, epoch u32, sequence u64, captured f64, deadline f64,
    trace u64, number of parts u16, 46 zero bytes
    part: dtype code u8, number of dimensions u8, shape u32 for each dimension, length in bytes u64
"""

import math
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fairlead.errors import FairleadError

MAGIC: Final = b"FLF1"
"""The first bytes of every header."""
HEADER_BYTES: Final = 96
"""The length of the fixed part."""
MOST_HEADER: Final = 4096
"""The largest length of a header with its parts."""
MOST_DIMENSIONS: Final = 8
RECORD: Final = 100
"""The dtype code of a JSON object in UTF-8, one dimension of bytes."""
DTYPES: Final[dict[int, np.dtype[Any]]] = {
    1: np.dtype(np.bool_),
    2: np.dtype(np.uint8),
    3: np.dtype(np.int8),
    4: np.dtype("<u2"),
    5: np.dtype("<i2"),
    6: np.dtype("<u4"),
    7: np.dtype("<i4"),
    8: np.dtype("<u8"),
    9: np.dtype("<i8"),
    10: np.dtype("<f2"),
    11: np.dtype("<f4"),
    12: np.dtype("<f8"),
    RECORD: np.dtype(np.uint8),
}
"""The element type of each dtype code."""

Array = NDArray[Any]
_CODES: Final = {dtype: code for code, dtype in DTYPES.items() if code != RECORD}
_FIXED: Final = struct.Struct("<4sIIIQddQH46s")
_UNUSED: Final = bytes(46)
_PART_START: Final = struct.Struct("<BB")
_U32: Final = 2**32
_MOST_BYTES: Final = 2**48
"""More than the address space of a process."""
assert _FIXED.size == HEADER_BYTES


class FrameError(FairleadError):
    """A frame, or a message about one, is not what the protocol allows; the message is one line."""


@dataclass(frozen=True, slots=True)
class PartHeader:
    """One array of a payload."""

    dtype: int
    """A code of `DTYPES`."""
    shape: tuple[int, ...]
    nbytes: int

    @classmethod
    def of(cls, array: Array) -> "PartHeader":
        """Describe an array; FrameError for a dtype or a shape that frames do not carry."""
        return _part_of(array.dtype, array.shape, array.nbytes)

    @classmethod
    def of_record(cls, nbytes: int) -> "PartHeader":
        """Describe a JSON object of `nbytes` bytes."""
        return cls(RECORD, (nbytes,), nbytes)


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """What every frame carries beside its payload."""

    stream: int
    """Which source stream."""
    sequence: int
    """The number in the stream, from 0."""
    captured: float
    """Seconds of CLOCK_BOOTTIME on the source's machine."""
    deadline: float = math.inf
    """The same clock; inf: none."""
    trace: int = 0
    """0: not traced."""
    epoch: int = 0
    """Raised with every replay after a crash; frames of an older epoch are dropped."""
    parts: tuple[PartHeader, ...] = ()
    """The arrays of the payload, in port order."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """The bytes of each part, as `Sender.reserve` takes them."""
        return tuple([part.nbytes for part in self.parts])


class Frame:
    """A header and the arrays of its payload, which may lie in memory shared with the sender.

    The slot goes back to the sender when `release` is called, or else when the last array of the payload
    and the last view of one is collected. After `release` they must not be read: the sender overwrites them.
    """

    __slots__ = ("_release", "buffers", "header")

    def __init__(
        self, header: FrameHeader, buffers: tuple[Array, ...], release: Callable[[], None] | None = None
    ) -> None:
        self.header = header
        self.buffers = buffers
        """One array for each part, with its dtype and shape; read-only where the memory is shared."""
        self._release = release

    def release(self) -> None:
        """Give the slot back; a second call does nothing."""
        release, self._release = self._release, None
        self.buffers = ()
        if release is not None:
            release()


def boottime() -> float:
    """Return the seconds of the clock that frames are stamped with; it also runs while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def encode_header(header: FrameHeader, parts: bytes | None = None) -> bytes:
    """Pack a header, with its parts as `encode_parts` returns them; FrameError where a field does not fit."""
    if math.isnan(header.deadline) or not math.isfinite(header.captured):
        raise FrameError(f"frame {header.sequence}: captured {header.captured}, deadline {header.deadline}")
    if parts is None:
        parts = encode_parts(header.parts)
    length = HEADER_BYTES + len(parts)
    try:
        fixed = _FIXED.pack(
            MAGIC,
            length,
            header.stream,
            header.epoch,
            header.sequence,
            header.captured,
            header.deadline,
            header.trace,
            len(header.parts),
            _UNUSED,
        )
    except struct.error as error:
        raise FrameError(f"a number in the header of frame {header.sequence} does not fit: {error}") from None
    return fixed + parts


def decode_header(data: bytes | bytearray | memoryview) -> FrameHeader:
    """Unpack a header, which must fill `data` exactly; FrameError for anything else."""
    if not HEADER_BYTES <= len(data) <= MOST_HEADER:
        raise FrameError(f"frame header of {len(data)} bytes: {HEADER_BYTES} to {MOST_HEADER} are possible")
    magic, length, stream, epoch, sequence, captured, deadline, trace, count, unused = _FIXED.unpack_from(
        data
    )
    if magic != MAGIC:
        raise FrameError(f"frame header starts with {magic!r}, not {MAGIC!r}")
    if length != len(data):
        raise FrameError(f"frame header of {len(data)} bytes says that it has {length}")
    if unused != _UNUSED:
        raise FrameError("frame header has data in its unused bytes")
    if math.isnan(deadline) or not math.isfinite(captured):
        raise FrameError(f"frame header with captured {captured}, deadline {deadline}")
    parts = _decode_parts(bytes(data[HEADER_BYTES:]), count)
    return FrameHeader(stream, sequence, captured, deadline, trace, epoch, parts)


# The parts of a stream's frames are mostly the same, so all of this is kept; one object is compared at once.
@lru_cache(maxsize=256)
def _part_of(dtype: np.dtype[Any], shape: tuple[int, ...], nbytes: int) -> PartHeader:
    code = _CODES.get(dtype)
    if code is None:
        known = ", ".join(each.name for each in _CODES)
        raise FrameError(f"dtype {dtype} cannot travel in a frame", f"convert it to one of {known}")
    if len(shape) > MOST_DIMENSIONS:
        raise FrameError(f"{len(shape)} dimensions: a frame carries at most {MOST_DIMENSIONS}")
    return PartHeader(code, shape, nbytes)


@lru_cache(maxsize=256)
def encode_parts(parts: tuple[PartHeader, ...]) -> bytes:
    """Pack the entries of the parts; FrameError for a part that cannot be, and where a header has no room."""
    packed = bytearray()
    for number, part in enumerate(parts):
        fault = _fault(part)
        if fault:
            raise FrameError(f"part {number}: {fault}")
        packed += struct.pack(
            f"<BB{len(part.shape)}IQ", part.dtype, len(part.shape), *part.shape, part.nbytes
        )
    if HEADER_BYTES + len(packed) > MOST_HEADER:
        need = HEADER_BYTES + len(packed)
        raise FrameError(f"{len(parts)} parts need a header of {need} bytes: at most {MOST_HEADER}")
    return bytes(packed)


@lru_cache(maxsize=256)
def _decode_parts(data: bytes, count: int) -> tuple[PartHeader, ...]:
    parts, at = [], 0
    for number in range(count):
        if at + _PART_START.size > len(data):
            raise FrameError(f"frame header ends inside part {number} of {count}")
        dtype, dimensions = _PART_START.unpack_from(data, at)
        entry = struct.Struct(f"<{min(dimensions, MOST_DIMENSIONS)}IQ")
        at += _PART_START.size
        if dimensions > MOST_DIMENSIONS or at + entry.size > len(data):
            raise FrameError(f"frame header: part {number} has {dimensions} dimensions, and the header ends")
        *shape, nbytes = entry.unpack_from(data, at)
        at += entry.size
        part = PartHeader(dtype, tuple(shape), nbytes)
        fault = _fault(part)
        if fault:
            raise FrameError(f"frame header: part {number}: {fault}")
        parts.append(part)
    if at != len(data):
        raise FrameError(f"frame header: {len(data) - at} bytes follow its last part")
    return tuple(parts)


def _fault(part: PartHeader) -> str:
    """Return what makes a part impossible; empty: nothing."""
    dtype = DTYPES.get(part.dtype)
    if dtype is None:
        return f"unknown dtype code {part.dtype}"
    if len(part.shape) > MOST_DIMENSIONS:
        return f"{len(part.shape)} dimensions: at most {MOST_DIMENSIONS}"
    if not all(0 <= length < _U32 for length in part.shape):
        return f"shape {part.shape}: lengths from 0 to {_U32 - 1} are possible"
    if part.dtype == RECORD and len(part.shape) != 1:
        return f"a record with {len(part.shape)} dimensions: it has one"
    # NumPy refuses an array without elements as well, where its other dimensions are too long.
    if math.prod(length for length in part.shape if length) * dtype.itemsize >= _MOST_BYTES:
        return f"shape {part.shape} of {dtype.name} is larger than any memory"
    size = math.prod(part.shape) * dtype.itemsize
    if size != part.nbytes:
        return f"shape {part.shape} of {dtype.name} is {size} bytes, and the header says {part.nbytes}"
    return ""
