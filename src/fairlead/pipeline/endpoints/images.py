"""Image files: NumPy's own format and the netpbm formats, which need no decoder, and JPEG and PNG."""

import glob
import os
import re
from typing import Any, Final

import numpy as np

from fairlead.pipeline.endpoints.codec.decode import read_picture

PLAIN: Final = (".npy", ".pgm", ".ppm")
PICTURES: Final = (".jpg", ".jpeg", ".png")
SUFFIXES: Final = (*PLAIN, *PICTURES)
_NETPBM: Final = re.compile(rb"P([56])(?:\s|#[^\n]*\n)+(\d+)(?:\s|#[^\n]*\n)+(\d+)(?:\s|#[^\n]*\n)+(\d+)\s")


def find_images(place: str) -> list[str]:
    """Return the image files of a folder, or those that a pattern with `*` matches, in the order of names."""
    found = (
        glob.glob(place)
        if glob.has_magic(place) and not os.path.isdir(place)
        else (os.path.join(place, name) for name in os.listdir(place))
    )
    return sorted(path for path in found if path.lower().endswith(SUFFIXES))


def needs_decoder(path: str) -> bool:
    """Return whether a file cannot be read without PyAV."""
    return path.lower().endswith(PICTURES)


def read_image(path: str) -> Any:
    """Return an image as an array of height, width and channels; ValueError for anything else."""
    if path.lower().endswith(".npy"):
        return np.load(path, allow_pickle=False)
    if needs_decoder(path):
        return read_picture(path)
    with open(path, "rb") as file:
        data = file.read()
    match = _NETPBM.match(data)
    if match is None or int(match[4]) != 255:
        raise ValueError(f"{path} is not a binary PGM or PPM file with 8 bits a channel")
    channels = 3 if match[1] == b"6" else 1
    width, height = int(match[2]), int(match[3])
    size = width * height * channels
    if len(data) - match.end() < size:
        raise ValueError(f"{path} ends before its last pixel")
    return np.frombuffer(data, np.uint8, size, match.end()).reshape(height, width, channels)
