"""Frames in a file, one after another: each its header and its payload."""

import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, BinaryIO, Final, Protocol

import numpy as np

from fairlead.pipeline.frame import (
    DTYPES,
    HEADER_BYTES,
    Array,
    Frame,
    FrameError,
    FrameHeader,
    decode_header,
    encode_header,
)
from fairlead.pipeline.work.values import encode_value

_LENGTH: Final = struct.Struct("<I")
_LENGTH_AT: Final = 4


class FrameRecorder:
    """Writes frames until a number of bytes is reached."""

    def __init__(self, file: BinaryIO, most_bytes: int) -> None:
        self._file = file
        self._left = most_bytes
        self._has_some = False
        self.is_full = False

    def write(self, header: FrameHeader, value: Any) -> None:
        """Write a value; the first is written whatever its size, later ones while there is room."""
        parts, arrays = encode_value(value)
        packed = encode_header(replace(header, parts=parts))
        size = len(packed) + sum(part.nbytes for part in parts)
        self.is_full = self.is_full or (self._has_some and size > self._left)
        if self.is_full:
            return
        self._file.write(packed)
        for array in arrays:
            self._file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        self._left -= size
        self._has_some = True


class FrameRecordReader(Protocol):
    """What frames are read from."""

    def read(self, size: int, /) -> bytes | memoryview:
        """Return the next bytes, fewer at the end."""
        ...


class MappedRecord:
    """A record in memory that is not copied: frames are where a worker has them, outside the heap."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0
        self.size = len(data)

    def read(self, size: int, /) -> memoryview:
        """Return the next bytes."""
        part = self._data[self._at : self._at + size]
        self._at += len(part)
        return part


@contextmanager
def map_record(path: str) -> Iterator[MappedRecord]:
    """Yield a record of a file; arrays of its frames keep it in memory as long as they are there."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
        data = mmap.mmap(file.fileno(), size, flags, mmap.PROT_READ) if size else b""
    yield MappedRecord(memoryview(data))


def read_frames(file: FrameRecordReader, most_bytes: float = float("inf")) -> Iterator[Frame]:
    """Yield the frames of a record, the first whatever its size; FrameError for a file that is none."""
    read = 0
    while start := bytes(file.read(HEADER_BYTES)):
        if len(start) < HEADER_BYTES:
            raise FrameError("a record that ends within a header")
        (length,) = _LENGTH.unpack_from(start, _LENGTH_AT)
        header = decode_header(start + file.read(max(0, length - HEADER_BYTES)))
        size = length + sum(header.sizes)
        if read and read + size > most_bytes:
            return
        read += size
        yield Frame(header, tuple(_arrays(header, file.read(sum(header.sizes)))))


def _arrays(header: FrameHeader, data: bytes | memoryview) -> Iterator[Array]:
    at = 0
    if len(data) < sum(header.sizes):
        raise FrameError(f"a record that ends within frame {header.sequence}")
    for part in header.parts:
        yield np.ndarray(part.shape, DTYPES[part.dtype], data, at)
        at += part.nbytes


def joined(records: Sequence[Iterator[Frame]]) -> Iterator[tuple[FrameHeader, list[Frame]]]:
    """Yield the frames of several records that have the same number, as a stage that joins gets them."""
    heads = [next(record, None) for record in records]
    while all(heads):
        frames = [head for head in heads if head is not None]
        newest = max(frame.header.sequence for frame in frames)
        if all(frame.header.sequence == newest for frame in frames):
            yield frames[0].header, frames
            heads = [next(record, None) for record in records]
            continue
        heads = [
            frame if frame.header.sequence == newest else next(record, None)
            for frame, record in zip(frames, records, strict=True)
        ]
