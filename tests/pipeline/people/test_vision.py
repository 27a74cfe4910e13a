"""Images as the detector's input, and its outputs as objects in pixels of the image."""

from typing import Any

import numpy as np
import pytest

from examples.pipeline.people.vision import (
    BINS,
    SIZE,
    Letterbox,
    decode,
    letterbox,
    objects,
    overlap,
    resize,
    suppress,
)
from fairlead.pipeline.models.images import resize_image

WIDTH, HEIGHT = 768, 576


def outputs(*found: tuple[int, int, int, float, tuple[int, int, int, int]]) -> dict[str, Any]:
    """Return outputs of the detector: at points (stride, row) a class, its score, the distances of sides."""
    made: dict[str, Any] = {}
    for stride in (8, 16, 32):
        rows = (SIZE // stride) ** 2
        made[f"scores{stride}"] = np.full((1, rows, 80), 0.01, np.float32)
        made[f"sides{stride}"] = np.zeros((1, rows, 4 * BINS), np.float32)
    for stride, row, number, score, sides in found:
        made[f"scores{stride}"][0, row, number] = score
        for side, distance in enumerate(sides):
            made[f"sides{stride}"][0, row, side * BINS + distance] = 50
    return made


@pytest.mark.parametrize(
    ("width", "height", "inner"),
    [
        (768, 576, (0, 52, 416, 364)),
        (1280, 720, (0, 91, 416, 325)),
        (100, 400, (156, 0, 260, 416)),
        (416, 416, (0, 0, 416, 416)),
    ],
)
def test_a_box_of_the_square_comes_back_in_pixels_of_the_image(
    width: int, height: int, inner: tuple[int, ...]
) -> None:
    place = Letterbox.of(width, height)
    assert (place.left, place.top, place.left + place.width, place.top + place.height) == inner
    whole = place.invert(np.array([inner], np.float64))
    np.testing.assert_allclose(whole, [[0, 0, width, height]])
    outside = place.invert(np.array([[-50.0, -50, SIZE + 50, SIZE + 50]]))
    np.testing.assert_allclose(outside, [[0, 0, width, height]])
    quarter = [inner[0], inner[1], (inner[0] + inner[2]) / 2, (inner[1] + inner[3]) / 2]
    np.testing.assert_allclose(place.invert(np.array([quarter])), [[0, 0, width / 2, height / 2]])


def test_what_is_in_the_image_is_at_its_place_in_the_square() -> None:
    image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    image[200:296, 120:360] = (250, 100, 20)
    square = letterbox(image)
    assert square[:52].min() == square[:52].max() == square[364:].max() == 114
    rows, columns = np.nonzero(square[52:364, :, 2] > 125)
    box = np.array([[columns.min(), rows.min() + 52, columns.max() + 1, rows.max() + 53]], np.float64)
    np.testing.assert_allclose(Letterbox.of(WIDTH, HEIGHT).invert(box), [[120, 200, 360, 296]], atol=1.5)
    assert square[180, 120].tolist() == [20, 100, 250], "blue comes first"


def test_an_image_of_another_size_is_refused_with_the_file_that_says_so() -> None:
    with pytest.raises(ValueError, match=r"640 x 480 pixels, scene\.json says 768 x 576"):
        letterbox(np.zeros((480, 640, 3), np.uint8))


@pytest.mark.parametrize("size", [(31, 17), (48, 60), (90, 33)])
def test_integers_resize_as_floats_do(size: tuple[int, int]) -> None:
    image = np.random.default_rng(1).integers(0, 256, (48, 60, 3), np.uint8)
    exact = resize_image(image, size, "bilinear")
    assert np.abs(resize(image, *size) - exact.astype(np.float64)).max() <= 1.5
    flat = np.full((9, 9, 3), 255, np.uint8)
    assert resize(flat, 5, 20).min() == 255


def test_a_box_reaches_from_its_point_by_the_distances_to_its_sides() -> None:
    sides = outputs(
        (16, 26 * 10 + 7, 0, 0.9, (1, 2, 3, 4)), (8, 52, 2, 0.6, (0, 1, 2, 0)), (32, 5, 0, 0.39, (1,) * 4)
    )
    boxes, scores = decode(sides)
    np.testing.assert_allclose(boxes, [[4, 4, 20, 12], [104, 136, 168, 232]], atol=1e-3)
    assert scores.max(1).tolist() == pytest.approx([0.6, 0.9])
    spread = outputs((16, 0, 0, 0.9, (0, 0, 0, 0)))
    spread["sides16"][0, 0] = 0
    np.testing.assert_allclose(decode(spread)[0], [[8 - 80, 8 - 80, 88, 88]], rtol=1e-5)


def test_people_and_vehicles_are_found_in_pixels_of_the_image() -> None:
    middle = 26 * 13 + 13
    made = objects(
        outputs(
            (16, middle, 0, 0.8, (1, 1, 1, 1)),
            (16, middle + 1, 0, 0.7, (2, 1, 1, 1)),
            (8, 52 * 40 + 4, 7, 0.6, (1, 1, 1, 1)),
            (8, 52 * 20 + 4, 15, 0.9, (1, 1, 1, 1)),
        )
    )["objects"]
    assert [(each["kind"], each["score"]) for each in made] == [("person", 0.8), ("vehicle", 0.6)]
    assert made[0]["box"] == pytest.approx(
        [(216 - 16) / 416 * 768, (164 - 16) / 312 * 576, 428.3, 332.3], abs=0.1
    )


BOXES = np.array([[0, 0, 10, 10], [0, 0, 10, 19], [0, 0, 10, 21], [50, 50, 60, 60]], np.float64)


@pytest.mark.parametrize(
    ("scores", "kept"),
    [((0.9, 0.8, 0.7, 0.6), [0, 2, 3]), ((0.7, 0.9, 0.8, 0.95), [3, 1]), ((0.5, 0.6, 0.7, 0.8), [3, 2, 0])],
)
def test_a_box_that_a_better_one_overlaps_is_dropped(scores: tuple[float, ...], kept: list[int]) -> None:
    assert overlap(BOXES[0], BOXES).tolist() == pytest.approx([1, 10 / 19, 10 / 21, 0])
    assert suppress(BOXES, np.array(scores)) == kept
