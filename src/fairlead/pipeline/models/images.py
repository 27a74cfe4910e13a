"""Images as the input of a network: resized, scaled, normalized and laid out; NumPy alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from fairlead.pipeline.frame import Array

FILTERS: Final = ("bilinear", "nearest")
LAYOUTS: Final = ("nchw", "nhwc")
PREPARING: Final = ("resize", "filter", "scale", "mean", "std", "layout")
"""The options that turn an image into the input of a network; without any of them nothing is changed."""


@dataclass(frozen=True, slots=True)
class ImagePreparation:
    """What happens to an image: `(value * scale - mean) / std`, with one batch dimension before it."""

    size: tuple[int, int] | None = None
    """Height and width; None: as the image is."""
    filter: str = "bilinear"
    scale: float = 1.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    layout: str = "nchw"
    dtype: str = "float32"

    @classmethod
    def of(cls, options: Mapping[str, Any], dtype: str) -> "ImagePreparation | None":
        """Return what the options of a stage ask for; None: nothing."""
        if not any(name in options for name in PREPARING):
            return None
        resize = options.get("resize")
        return cls(
            (resize[0], resize[1]) if resize else None,
            options.get("filter", "bilinear"),
            parse_scale(options.get("scale", 1)) or 1.0,
            tuple(map(float, options.get("mean", (0.0,)))),
            tuple(map(float, options.get("std", (1.0,)))),
            options.get("layout", "nchw"),
            dtype,
        )

    def apply(self, image: Array) -> Array:
        """Return an image of height, width and channels as a batch of one."""
        sized = image if self.size is None else resize_image(image, self.size, self.filter)
        std = np.asarray(self.std, np.float32)
        factor = np.float32(self.scale) / std
        made = sized * factor - np.asarray(self.mean, np.float32) / std
        ordered = made.transpose(2, 0, 1) if self.layout == "nchw" else made
        return np.ascontiguousarray(ordered[np.newaxis], self.dtype)


def parse_scale(value: Any) -> float | None:
    """Return the factor that a number or a fraction such as 1/255 names; None: it names none."""
    if isinstance(value, str) and value.startswith("1/") and value[2:].isdigit() and int(value[2:]):
        return 1 / int(value[2:])
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e6:
        return float(value)
    return None


def resize_image(image: Array, size: tuple[int, int], method: str) -> Array:
    """Return an image in another size; pixels are areas, so that corners keep their place."""
    height, width = image.shape[:2]
    if (height, width) == size:
        return image
    if method == "nearest":
        return image[_nearest(height, size[0])[:, np.newaxis], _nearest(width, size[1])]
    top, bottom, down = _between(height, size[0])
    left, right, across = _between(width, size[1])
    rows = (
        image[top] * (1 - down[:, np.newaxis, np.newaxis]) + image[bottom] * down[:, np.newaxis, np.newaxis]
    )
    made: Array = rows[:, left] * (1 - across[:, np.newaxis]) + rows[:, right] * across[:, np.newaxis]
    return made


@lru_cache(maxsize=64)
def _nearest(before: int, after: int) -> Array:
    places: Array = np.minimum((np.arange(after) + 0.5) * before / after, before - 1).astype(np.intp)
    return places


@lru_cache(maxsize=64)
def _between(before: int, after: int) -> tuple[Array, Array, Array]:
    """Return for each new place the two old ones that it lies between, and the share of the second."""
    places = np.clip((np.arange(after) + 0.5) * before / after - 0.5, 0, before - 1)
    first = places.astype(np.intp)
    return first, np.minimum(first + 1, before - 1), (places - first).astype(np.float32)
