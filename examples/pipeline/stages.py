"""The stage of count.yaml and the source of convolution.yaml."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from fairlead.pipeline import Image, Record, stage, tensor


@stage(inputs=Image, outputs=Record)
def bright(image: Any) -> dict[str, int]:
    """Return how many values of an image are above 200."""
    return {"bright": int((image > 200).sum())}


@stage(outputs=tensor("uint8", (None, None)))
def noise(count: int, height: int, width: int, start: int = 0) -> Iterator[Any]:
    """Yield grey images of noise, each made from its number: with `start` the source can be read again."""
    for number in range(start, count):
        yield np.random.default_rng(number).integers(0, 256, (height, width), np.uint8)
