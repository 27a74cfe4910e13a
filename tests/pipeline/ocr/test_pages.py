"""Pages in the detector's size, and their regions as lines of the recogniser's height."""

from typing import Any

import numpy as np
import pytest

from examples.pipeline.ocr.pages import (
    GREY,
    HEIGHT,
    LEAST_WIDTH,
    crop,
    detector_size,
    normalise,
    prepare,
    rectify,
    sample,
)
from tests.pipeline.ocr.test_regions import rectangle, turned


def picture(height: int, width: int) -> Any:
    """Return a smooth picture that has no symmetry."""
    y, x = np.mgrid[:height, :width]
    return np.stack([x * 200 / width, y * 200 / height, 100 + 50 * x / width - 50 * y / height], -1).astype(
        np.uint8
    )


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [
        (191, 384, (736, 1472)),
        (736, 736, (736, 736)),
        (1080, 1920, (1088, 1920)),
        (4000, 3000, (2016, 1504)),
        (40, 8000, (32, 2016)),
        (1, 1, (736, 736)),
    ],
)
def test_a_page_gets_a_size_that_the_detector_takes(
    height: int, width: int, expected: tuple[int, int]
) -> None:
    assert detector_size(height, width) == expected


def test_a_page_is_blue_first_and_has_three_channels() -> None:
    page = picture(736, 768)
    np.testing.assert_array_equal(prepare(page), page[:, :, ::-1])
    grey = page[:, :, :1]
    np.testing.assert_array_equal(prepare(grey), np.repeat(grey, 3, axis=2))


def test_a_place_between_pixels_has_a_colour_between_theirs() -> None:
    image = np.array([[[0], [100]], [[200], [40]]], np.uint8)
    places = np.array([[0, 0], [0.25, 0], [0.5, 0.5], [1, 0.75], [-3, 9]], float)
    assert sample(image, places)[:, 0].tolist() == [0, 25, 85, 55, 200]


def test_a_region_of_the_recognisers_height_is_copied() -> None:
    page = picture(100, 300)
    np.testing.assert_array_equal(
        rectify(page, rectangle(20, 30, 200, HEIGHT)), page[30 : 30 + HEIGHT, 20:220]
    )


@pytest.mark.parametrize("degrees", [-30, 12, 40])
def test_a_tilted_region_is_made_level(degrees: float) -> None:
    box = turned(rectangle(60, 90, 160, 24), degrees)
    line = rectify(picture(240, 320), box).astype(float)
    assert line.shape == (HEIGHT, 320, 3)
    for corner, place in zip(box, ((0, 0), (0, -1), (-1, -1), (-1, 0)), strict=True):
        x, y = corner
        assert line[place][:2] == pytest.approx([x * 200 / 320, y * 200 / 240], abs=2)


def test_a_region_that_is_taller_than_wide_is_read_from_top_to_bottom() -> None:
    page = picture(300, 100)
    line = rectify(page, rectangle(20, 30, HEIGHT, 200))
    np.testing.assert_array_equal(line, np.rot90(page[30:230, 20 : 20 + HEIGHT]))


def test_lines_of_a_page_have_one_width() -> None:
    page = picture(200, 600)
    boxes = np.stack([rectangle(0, 0, 480, HEIGHT), rectangle(10, 60, 100, HEIGHT)]).astype(np.float32)
    lines = crop(page, {"boxes": boxes})
    assert lines.shape == (2, HEIGHT, 480, 3)
    np.testing.assert_array_equal(lines[1, :, :100], page[60 : 60 + HEIGHT, 10:110])
    assert (lines[1, :, 100:] == GREY).all()
    empty = crop(page[:, :, :1], {"boxes": np.empty((0, 4, 2), np.float32)})
    assert empty.shape == (1, HEIGHT, LEAST_WIDTH, 3)
    assert (empty == GREY).all()


def test_the_recogniser_gets_values_from_minus_1_to_1_blue_first() -> None:
    lines = np.zeros((1, HEIGHT, 320, 3), np.uint8)
    lines[..., 0] = 255
    made = normalise(lines)
    assert (made.dtype, made.shape) == (np.float32, (1, 3, HEIGHT, 320))
    assert made[0, :, 0, 0].tolist() == [-1, -1, 1]
