"""Images as JPEG on their way between hosts, by whichever library is installed."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from typing import Final

import numpy as np

from fairlead.pipeline.frame import Array, Frame, FrameError, FrameHeader, PartHeader

_QUALITY: Final = 90
LIBRARIES: Final = {"cv2": "opencv-python-headless", "PIL": "pillow"}
"""Modules that encode JPEG, in the order in which they are tried, and what installs them."""


@dataclass(frozen=True, slots=True)
class JpegCodec:
    """One library."""

    encode: Callable[[Array], bytes]
    decode: Callable[[bytes], Array]


def available() -> str:
    """Return the module that is used; empty: none is installed."""
    return next((name for name in LIBRARIES if find_spec(name) is not None), "")


def to_jpeg(frame: Frame) -> tuple[FrameHeader, Sequence[Array]]:
    """Return a frame with its image as JPEG; FrameError for anything that is no image."""
    image = frame.buffers[0]
    if len(frame.buffers) != 1 or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] not in (1, 3):
        raise FrameError(
            f"frame {frame.header.sequence} is no image: JPEG cannot carry it", "remove encode: jpeg"
        )
    data: Array = np.frombuffer(_codec().encode(image), np.uint8)
    return replace(frame.header, parts=(PartHeader.of(data),)), (data,)


def from_jpeg(frame: Frame) -> tuple[FrameHeader, Sequence[Array]]:
    """Return a frame with the image of its JPEG."""
    try:
        image = _codec().decode(frame.buffers[0].tobytes())
    except Exception as error:  # whatever the library raises for damaged data
        raise FrameError(f"frame {frame.header.sequence} is not JPEG: {error}") from error
    return replace(frame.header, parts=(PartHeader.of(image),)), (image,)


@cache
def _codec() -> JpegCodec:
    name = available()
    if not name:
        raise FrameError("no library for JPEG is installed", f"install {LIBRARIES['PIL']}")
    return _opencv() if name == "cv2" else _pillow()


def _opencv() -> JpegCodec:
    import cv2  # noqa: PLC0415 - one of two libraries, neither of which must be installed

    def encode(image: Array) -> bytes:
        _, data = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
        return bytes(data)

    def decode(data: bytes) -> Array:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
        return np.ascontiguousarray(image[..., None] if image.ndim == 2 else image[..., ::-1])

    return JpegCodec(encode, decode)


def _pillow() -> JpegCodec:
    from PIL import Image  # noqa: PLC0415 - as above

    def encode(image: Array) -> bytes:
        buffer = io.BytesIO()
        Image.fromarray(image[..., 0] if image.shape[2] == 1 else image).save(
            buffer, "JPEG", quality=_QUALITY
        )
        return buffer.getvalue()

    def decode(data: bytes) -> Array:
        image: Array = np.asarray(Image.open(io.BytesIO(data)))
        return image[..., None] if image.ndim == 2 else image

    return JpegCodec(encode, decode)
