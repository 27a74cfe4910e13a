"""The stages before and behind the detector: images as its input, and its outputs as objects.

Only integers are computed with in the letterbox: every machine makes the same bytes.
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from fairlead.pipeline import Image, Record, stage, tensor

SIZE: Final = 416
"""Height and width of the detector's input."""
GREY: Final = 114
"""The value around a letterboxed image."""
STRIDES: Final = (8, 16, 32)
"""Pixels of the input between two points of each of the detector's three grids."""
BINS: Final = 11
"""The distance from a point to one side of a box is a distribution over 0, 1 .. 10 strides."""
KINDS: Final = {0: "person", 1: "vehicle", 2: "vehicle", 3: "vehicle", 5: "vehicle", 7: "vehicle"}
"""Of COCO's classes person; bicycle, car, motorcycle, bus and truck."""
LEAST_SCORE: Final = 0.4
MOST_OVERLAP: Final = 0.5
"""Intersection over union above which two boxes of one kind are one object."""
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Letterbox:
    """Where an image lies in the square that the detector gets."""

    width: int
    height: int
    left: int
    top: int
    scale: tuple[float, float]
    """What a pixel of the image is wide and tall in the square."""

    @classmethod
    def of(cls, width: int, height: int) -> "Letterbox":
        """Return the place of an image: as large as fits, in the middle."""
        ratio = min(SIZE / width, SIZE / height)
        inner = max(1, round(width * ratio)), max(1, round(height * ratio))
        scale = inner[0] / width, inner[1] / height
        return cls(*inner, (SIZE - inner[0]) // 2, (SIZE - inner[1]) // 2, scale)

    def invert(self, boxes: Array) -> Array:
        """Return boxes of the square (left, top, right, bottom) in pixels of the image, within its edges."""
        inner = boxes - np.array([self.left, self.top] * 2, boxes.dtype)
        inner = np.clip(inner, 0, [self.width, self.height] * 2)
        made: Array = inner / np.array(self.scale * 2, boxes.dtype)
        return made


@stage(inputs=Image, outputs=tensor("uint8", (SIZE, SIZE, 3)))
def letterbox(image: Any) -> Array:
    """Return an image in a grey square, its ratio kept, blue first: the detector was trained with such."""
    height, width = image.shape[:2]
    wanted = scene_size()
    if (width, height) != wanted:
        raise ValueError(
            f"the image has {width} x {height} pixels, scene.json says {wanted[0]} x {wanted[1]}"
        )
    place = Letterbox.of(width, height)
    square = np.full((SIZE, SIZE, 3), GREY, np.uint8)
    inner = square[place.top : place.top + place.height, place.left : place.left + place.width]
    inner[:] = resize(image, place.height, place.width)[:, :, ::-1]
    return square


def resize(image: Array, height: int, width: int) -> Array:
    """Return an image in another size, bilinear; pixels are areas, so that corners keep their place."""
    top, bottom, down = _between(image.shape[0], height)
    left, right, across = _between(image.shape[1], width)
    wide = image.astype(np.uint16)
    share = down[:, np.newaxis, np.newaxis]
    rows = wide[top] * (256 - share) + wide[bottom] * share
    share = across[:, np.newaxis].astype(np.uint32)
    sums = rows[:, left] * (256 - share) + rows[:, right] * share
    made: Array = ((sums + (1 << 15)) >> 16).astype(np.uint8)
    return made


@lru_cache(maxsize=8)
def _between(before: int, after: int) -> tuple[Array, Array, Array]:
    """Return for each new place the two old ones that it lies between, and the 256ths of the second."""
    places = np.clip((np.arange(after) + 0.5) * before / after - 0.5, 0, before - 1)
    first = places.astype(np.intp)
    return first, np.minimum(first + 1, before - 1), np.rint((places - first) * 256).astype(np.uint16)


@lru_cache(maxsize=1)
def scene_size() -> tuple[int, int]:
    """Return width and height of the images that scene.json describes."""
    width, height = json.loads(Path(__file__).with_name("scene.json").read_text())["image"]
    return int(width), int(height)


@stage(inputs=Record, outputs=Record)
def objects(outputs: dict[str, Array]) -> dict[str, Any]:
    """Return the people and vehicles that the detector found, the best first: kind, score, box in pixels."""
    boxes, scores = decode(outputs)
    place = Letterbox.of(*scene_size())
    kept: list[dict[str, Any]] = []
    kinds = np.array([KINDS[number] for number in KINDS])
    best = scores.argmax(1)
    for kind in sorted(set(KINDS.values())):
        rows = np.flatnonzero(kinds[best] == kind)
        rows = rows[suppress(boxes[rows], scores[rows].max(1))]
        inside = place.invert(boxes[rows])
        kept += [
            {"kind": kind, "score": round(float(score), 3), "box": [round(float(each), 1) for each in box]}
            for score, box in zip(scores[rows].max(1), inside, strict=True)
        ]
    return {"objects": sorted(kept, key=lambda each: -each["score"])}


def decode(outputs: dict[str, Array]) -> tuple[Array, Array]:
    """Return boxes in the square, and their scores for each of `KINDS`; only those above the least score."""
    by_width = {(array.shape[-2], array.shape[-1]): array[0] for array in outputs.values()}
    found_boxes, found_scores = [], []
    for stride in STRIDES:
        side = SIZE // stride
        scores = by_width[side * side, 80][:, list(KINDS)]
        (rows,) = np.nonzero(scores.max(1) >= LEAST_SCORE)
        bins = by_width[side * side, 4 * BINS][rows].reshape(-1, 4, BINS)
        weights = np.exp(bins - bins.max(2, keepdims=True))
        reach = weights @ np.arange(BINS, dtype=np.float32) / weights.sum(2) * stride
        points = (np.stack([rows % side, rows // side], 1) + 0.5) * stride
        found_boxes.append(np.concatenate([points - reach[:, :2], points + reach[:, 2:]], 1))
        found_scores.append(scores[rows])
    return np.concatenate(found_boxes), np.concatenate(found_scores)


def suppress(boxes: Array, scores: Array) -> list[int]:
    """Return the rows of boxes that no better one overlaps, the best first."""
    left = np.argsort(-scores, kind="stable")
    kept: list[int] = []
    while len(left):
        kept.append(int(left[0]))
        left = left[1:][overlap(boxes[left[0]], boxes[left[1:]]) <= MOST_OVERLAP]
    return kept


def overlap(box: Array, others: Array) -> Array:
    """Return the intersection over union of a box with others."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = np.clip(sides, 0, None).prod(1)
    area = (box[2:] - box[:2]).prod()
    areas = (others[:, 2:] - others[:, :2]).prod(1)
    made: Array = shared / np.maximum(area + areas - shared, 1e-9)
    return made
