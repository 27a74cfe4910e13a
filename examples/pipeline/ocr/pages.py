"""The stages before both networks: a page in the detector's size, and its regions as lines of one height."""

from typing import Any, Final

import numpy as np

from fairlead.pipeline import Image, stage, tensor
from fairlead.pipeline.models.images import resize_image

STEP: Final = 32
"""The detector takes heights and widths that are multiples of it."""
SHORT_SIDE: Final = 736
"""A page with a shorter side is enlarged: the detector misses letters of few pixels."""
LONG_SIDE: Final = 2016
"""A page with a longer side is made smaller."""
HEIGHT: Final = 48
"""The height of the recogniser's lines."""
LEAST_WIDTH: Final = 320
"""The recogniser was trained with lines of this width; shorter ones are padded."""
MOST_WIDTH: Final = 4096
GREY: Final = 128
"""The value beside a line that is shorter than others: next to 0 once it is normalised."""
UPRIGHT: Final = 1.5
"""A region that is taller than its width by this factor is read from top to bottom."""
Array = np.ndarray[Any, Any]


@stage(inputs=Image, outputs=Image)
def prepare(page: Any) -> Array:
    """Return a page in a size that the detector takes, blue first: the detector was trained with such."""
    made = resize_image(colours(page), detector_size(*page.shape[:2]), "bilinear")
    return np.ascontiguousarray(np.rint(made[:, :, ::-1]).astype(np.uint8))


def detector_size(height: int, width: int) -> tuple[int, int]:
    """Return height and width that a page has for the detector; its ratio is kept up to half a step."""
    ratio = max(1.0, SHORT_SIDE / min(height, width))
    ratio = min(ratio, LONG_SIDE / max(height, width))
    return max(STEP, round(height * ratio / STEP) * STEP), max(STEP, round(width * ratio / STEP) * STEP)


def colours(page: Array) -> Array:
    """Return a page with three channels."""
    return page if page.shape[2] == 3 else np.repeat(page, 3, axis=2)


@stage(outputs=tensor("uint8", (None, HEIGHT, None, 3)))
def crop(page: Any, found: Any) -> Array:
    """Return the regions of a page as lines of one size; a page without any makes one empty line."""
    page = colours(page)
    lines = [rectify(page, box.astype(np.float64)) for box in found["boxes"]]
    width = max([LEAST_WIDTH, *(line.shape[1] for line in lines)])
    made = np.full((max(1, len(lines)), HEIGHT, width, 3), GREY, np.uint8)
    for row, line in zip(made, lines, strict=False):  # the row of a page without regions has no line
        row[:, : line.shape[1]] = line
    return made


def rectify(page: Array, box: Array) -> Array:
    """Return a region, turned upright, as an image of the recogniser's height."""
    width, height = float(np.linalg.norm(box[1] - box[0])), float(np.linalg.norm(box[3] - box[0]))
    if height >= UPRIGHT * width:
        box, width, height = np.roll(box, -1, axis=0), height, width
    columns = min(MOST_WIDTH, max(1, round(HEIGHT * width / max(height, 1.0))))
    across = (np.arange(columns) + 0.5)[np.newaxis, :, np.newaxis] / columns * (box[1] - box[0])
    down = (np.arange(HEIGHT) + 0.5)[:, np.newaxis, np.newaxis] / HEIGHT * (box[3] - box[0])
    return sample(page, box[0] + across + down - 0.5)


def sample(image: Array, places: Array) -> Array:
    """Return the colours of an image at places (x, y) between its pixels, bilinear."""
    limit = np.array(image.shape[1::-1]) - 1
    places = np.clip(places, 0, limit)
    low = places.astype(np.intp)
    high = np.minimum(low + 1, limit)
    across, down = np.split(places - low, 2, axis=-1)
    top = image[low[..., 1], low[..., 0]] * (1 - across) + image[low[..., 1], high[..., 0]] * across
    bottom = image[high[..., 1], low[..., 0]] * (1 - across) + image[high[..., 1], high[..., 0]] * across
    made: Array = np.rint(top * (1 - down) + bottom * down).astype(np.uint8)
    return made


@stage(inputs=tensor("uint8", (None, HEIGHT, None, 3)), outputs=tensor("float32", (None, 3, HEIGHT, None)))
def normalise(lines: Any) -> Array:
    """Return lines as the recogniser takes them: blue first, from -1 to 1."""
    ordered = lines[..., ::-1].transpose(0, 3, 1, 2)
    return np.ascontiguousarray(ordered, np.float32) / np.float32(127.5) - np.float32(1)
