"""Values of stages as the parts of frames, and back; frames without parts.

An array is one part. A record is one part of JSON; arrays at its top level are parts of their own behind it,
and the key `$arrays` names them in order.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from fairlead.pipeline.frame import RECORD, Array, Frame, FrameError, FrameHeader, PartHeader

END_STREAM: Final = 2**32 - 1
"""The stream of the frame that ends a link; it has no parts."""
ARRAYS: Final = "$arrays"
"""The key of a record that names the arrays behind it."""


def encode_value(value: Any) -> tuple[tuple[PartHeader, ...], tuple[Array, ...]]:
    """Return a value as parts; FrameError, TypeError or ValueError for one that cannot travel."""
    if isinstance(value, np.ndarray):
        return (PartHeader.of(value),), (value,)
    arrays = {key: each for key, each in value.items() if isinstance(each, np.ndarray)}
    if ARRAYS in value:
        raise ValueError(f"a record with the key {ARRAYS}: it is reserved, choose another name")
    if arrays:
        value = {key: each for key, each in value.items() if key not in arrays} | {ARRAYS: list(arrays)}
    data = np.frombuffer(json.dumps(value, default=plain).encode(), np.uint8)
    parts = (PartHeader.of_record(data.nbytes), *map(PartHeader.of, arrays.values()))
    return parts, (data, *arrays.values())


def decode_value(frame: Frame) -> Any:
    """Return the value of a frame: a read-only array, or a dictionary."""
    (value,) = decode_values(frame.header.parts, frame.buffers)
    return value


def decode_values(parts: Sequence[PartHeader], arrays: Sequence[Array]) -> list[Any]:
    """Return the values that parts carry, one after another; FrameError for a record that is none."""
    values: list[Any] = []
    at = 0
    while at < len(parts):
        value: Any = arrays[at]
        at += 1
        if parts[at - 1].dtype == RECORD:
            value = _read_record(value)
            names = value.pop(ARRAYS, [])
            if not isinstance(names, list) or at + len(names) > len(parts):
                raise FrameError(f"a record whose {ARRAYS} does not name the arrays behind it")
            value |= {str(name): array for name, array in zip(names, arrays[at:], strict=False)}
            at += len(names)
        values.append(value)
    return values


def is_mark(header: FrameHeader) -> bool:
    """Return whether a header only says that its frame was dropped or filtered."""
    return not header.parts and header.stream != END_STREAM


def is_end(header: FrameHeader) -> bool:
    """Return whether a header ends a link."""
    return not header.parts and header.stream == END_STREAM


def mark_of(header: FrameHeader) -> FrameHeader:
    """Return the mark of a frame that goes no further."""
    return replace(header, parts=())


def end_of(epoch: int) -> FrameHeader:
    """Return the header that ends a link."""
    return FrameHeader(END_STREAM, 0, 0.0, epoch=epoch)


def plain(value: object) -> Any:
    """Return numbers and arrays of NumPy as JSON has them."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} in a record: JSON cannot carry it")


def _read_record(data: Array) -> dict[str, Any]:
    try:
        value = json.loads(data.tobytes())
    except ValueError as error:
        raise FrameError(f"a record that is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise FrameError(f"a record that is not a JSON object, but a {type(value).__name__}")
    return value
