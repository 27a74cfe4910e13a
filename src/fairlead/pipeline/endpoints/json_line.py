"""Frames as JSON objects."""

import zlib
from typing import Any

import numpy as np

from fairlead.pipeline.frame import FrameHeader


def to_line(header: FrameHeader, value: Any) -> dict[str, Any]:
    """Return the JSON object of one frame; of an array its description and its checksum."""
    line: dict[str, Any] = {"stream": header.stream, "sequence": header.sequence}
    if isinstance(value, np.ndarray):
        crc = zlib.crc32(np.ascontiguousarray(value).data)
        return line | {"array": {"dtype": value.dtype.name, "shape": list(value.shape), "crc32": crc}}
    return line | {"value": value}
