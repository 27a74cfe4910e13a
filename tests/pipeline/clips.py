"""Small videos that tests make themselves; needs PyAV."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def pyav() -> Any:
    """Return PyAV, or skip the test."""
    return pytest.importorskip("av", reason="PyAV, the extra pipeline-video, is not installed")


def image(number: int, width: int = 64, height: int = 48) -> Any:
    """Return an image that differs from those of other numbers."""
    y, x = np.mgrid[:height, :width]
    return np.stack([x * 3 + number * 5, y * 2 + number * 3, x + y + number * 7], -1).astype(np.uint8)


def write_clip(
    path: Path,
    codec: str = "libx264",
    frames: int = 100,
    rate: Fraction | int = 30,
    codec_options: dict[str, str] | None = None,
    container_options: dict[str, str] | None = None,
    *,
    uneven: bool = False,
) -> Path:
    """Write a video with B-frames, and return its path; `uneven`: its frames last longer and longer."""
    av = pyav()
    with av.open(str(path), "w", options=container_options or {}) as container:
        stream = container.add_stream(
            codec, rate=rate, options={"bf": "2", "g": "40", **(codec_options or {})}
        )
        if uneven:
            stream.codec_context.time_base = Fraction(1, 1000)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(frames):
            frame = av.VideoFrame.from_ndarray(image(number), "rgb24")
            if uneven:
                frame.pts, frame.time_base = number * (number + 20), Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path
