"""Synthetic images as PPM files: a gradient, some boxes and noise, the same for the same number."""

import os
from typing import Any, Final

import numpy as np

WIDTH, HEIGHT = 320, 240
"""About 230 kB: the size that the paper's images have on average is not stated."""
_HEADER: Final = "P6\n{} {}\n255\n"
_BOXES: Final = 6


def image_bytes(width: int = WIDTH, height: int = HEIGHT) -> int:
    """Return the size of a file."""
    return len(_HEADER.format(width, height)) + 3 * width * height


def write_images(folder: str, count: int, width: int = WIDTH, height: int = HEIGHT) -> list[str]:
    """Write images that do not exist yet, and return the names of all."""
    os.makedirs(folder, exist_ok=True)
    names = [f"{number:06}.ppm" for number in range(count)]
    for number, name in enumerate(names):
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            with open(path, "wb") as file:
                file.write(_HEADER.format(width, height).encode())
                file.write(_pixels(number, width, height).tobytes())
    return names


def read_image(path: str) -> Any:
    """Return the pixels of a PPM file: height, width, 3."""
    with open(path, "rb") as file:
        magic, size, most, pixels = file.read().split(b"\n", 3)
    width, height = (int(word) for word in size.split())
    if (magic, most) != (b"P6", b"255"):
        raise ValueError(f"{path}: not a PPM file of bytes")
    return np.frombuffer(pixels, np.uint8, 3 * width * height).reshape(height, width, 3)


def as_input(pixels: Any, side: int) -> Any:
    """Return pixels as the input of a network: 1, 3, side, side, from -1 to 1, resized by the nearest."""
    height, width, _ = pixels.shape
    rows, columns = np.arange(side) * height // side, np.arange(side) * width // side
    resized = pixels[rows][:, columns].astype(np.float32) / 127.5 - 1.0
    return np.ascontiguousarray(resized.transpose(2, 0, 1)[None])


def _pixels(number: int, width: int, height: int) -> Any:
    random = np.random.default_rng(number)
    slope = np.linspace(0, 255, width, dtype=np.float32)
    pixels = np.broadcast_to(slope[None, :, None], (height, width, 3)).astype(np.uint8)
    for _ in range(_BOXES):
        left, top = random.integers(0, width // 2), random.integers(0, height // 2)
        wide, high = random.integers(8, width // 2), random.integers(8, height // 2)
        pixels[top : top + high, left : left + wide] = random.integers(0, 256, 3)
    return pixels ^ random.integers(0, 8, pixels.shape, dtype=np.uint8)
