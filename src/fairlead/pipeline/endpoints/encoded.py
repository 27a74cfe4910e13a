"""Values as the bytes of a file or of a request, by the name of their format."""

import io
import json
from typing import Any, Final

import numpy as np

from fairlead.pipeline.endpoints.codec.encode import encode_image
from fairlead.pipeline.endpoints.codec.library import pyav
from fairlead.pipeline.endpoints.json_line import to_line
from fairlead.pipeline.frame import FrameHeader
from fairlead.pipeline.ports import Image

FORMATS: Final = {
    "json": "application/json",
    "npy": "application/x-npy",
    "jpeg": "image/jpeg",
    "png": "image/png",
}
"""By format: its media type."""
IMAGES: Final = ("jpeg", "png")


def encode(header: FrameHeader, value: Any, form: str, quality: int) -> bytes:
    """Return a value in a format; ValueError where the format cannot carry it."""
    if form == "json":
        return json.dumps(to_line(header, value)).encode() + b"\n"
    if not isinstance(value, np.ndarray):
        raise ValueError(f"a record cannot be written as {form}: use json, or a stage that returns an array")
    if form == "npy":
        buffer = io.BytesIO()
        np.save(buffer, value, allow_pickle=False)
        return buffer.getvalue()
    if fault := Image.objection(value):
        raise ValueError(f"{fault} cannot be written as {form}: an image has uint8 and 1 or 3 channels")
    return encode_image(value, form, quality)


def check_format(form: str, purpose: str) -> None:
    """Raise MissingPartError where a format needs what is not installed."""
    if form in IMAGES:
        pyav(f"{purpose} with {form} images")
