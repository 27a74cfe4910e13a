"""Regions of text from probabilities: components, smallest rectangles, margins, reading order."""

import math
from typing import Any

import numpy as np
import pytest

from examples.pipeline.ocr.regions import (
    components,
    corners,
    enlarge,
    reading_order,
    rectangles,
    regions,
    sides,
    smallest_rectangle,
)


def mask(picture: str) -> Any:
    """Return a picture as a mask."""
    return np.array([[letter == "#" for letter in line] for line in picture.split()])


def rectangle(left: float, top: float, width: float, height: float) -> Any:
    """Return the corners of a rectangle, clockwise from the top left."""
    return np.array(
        [[left, top], [left + width, top], [left + width, top + height], [left, top + height]], float
    )


def turned(box: Any, degrees: float) -> Any:
    """Return a rectangle turned around its middle."""
    angle = math.radians(degrees)
    axes = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    return (box - box.mean(0)) @ axes + box.mean(0)


def filled(box: Any, shape: tuple[int, int]) -> Any:
    """Return the pixels whose centres lie in a rectangle."""
    y, x = np.mgrid[: shape[0], : shape[1]] + 0.5
    places = np.stack([x, y], -1) - box[0]
    inside = np.ones(shape, bool)
    for axis in (box[1] - box[0], box[3] - box[0]):
        inside &= (places @ axis >= 0) & (places @ axis <= axis @ axis)
    return inside


@pytest.mark.parametrize(
    ("picture", "expected"),
    [
        ("....  ....", []),
        ("####", [[(0, 0, 4)]]),
        ("#.. .#. #..", [[(0, 0, 1), (1, 1, 2), (2, 0, 1)]]),
        ("#.# #.#", [[(0, 0, 1), (1, 0, 1)], [(0, 2, 3), (1, 2, 3)]]),
        ("#.#.# #.#.# #####", [[(y, x, x + 1) for y in (0, 1) for x in (0, 2, 4)] + [(2, 0, 5)]]),
        ("##..## ..#... ....#.", [[(0, 0, 2), (1, 2, 3)], [(0, 4, 6)], [(2, 4, 5)]]),
    ],
)
def test_components_are_runs_that_touch_also_at_corners(
    picture: str, expected: list[list[tuple[int, int, int]]]
) -> None:
    found = [[tuple(run) for run in runs.tolist()] for runs in components(mask(picture))]
    assert found == expected


def test_components_are_those_of_a_flood() -> None:
    draw = np.random.default_rng(5)
    for _ in range(30):
        pixels = draw.random((12, 14)) < 0.4
        found = set()
        for runs in components(pixels):
            found.add(frozenset((y, x) for y, start, end in runs.tolist() for x in range(start, end)))
        assert found == flood(pixels)


def flood(pixels: Any) -> set[frozenset[tuple[int, int]]]:
    """Return the components of a mask, by following each pixel's neighbours."""
    left = {(int(y), int(x)) for y, x in zip(*np.nonzero(pixels), strict=True)}
    found = set()
    while left:
        edge, seen = [left.pop()], set()
        while edge:
            y, x = edge.pop()
            seen.add((y, x))
            near = {(y + down, x + across) for down in (-1, 0, 1) for across in (-1, 0, 1)} & left
            left -= near
            edge += near
        found.add(frozenset(seen))
    return found


def test_the_rectangle_of_a_block_is_the_block() -> None:
    pixels = np.zeros((9, 14), bool)
    pixels[2:5, 3:10] = True
    (runs,) = components(pixels)
    np.testing.assert_allclose(smallest_rectangle(corners(runs)), rectangle(3, 2, 7, 3))


@pytest.mark.parametrize("degrees", [-40, -20, -3, 0, 10, 30, 44])
def test_a_tilted_rectangle_is_found_with_its_corners_in_order(degrees: float) -> None:
    box = turned(rectangle(40, 50, 120, 24), degrees)
    found = smallest_rectangle(
        np.concatenate([box, np.random.default_rng(1).dirichlet(np.ones(4), 50) @ box])
    )
    np.testing.assert_allclose(found, box, atol=1e-9)
    ((near, score),) = rectangles(np.where(filled(box, (170, 200)), 0.9, 0.1))
    assert np.abs(near - box).max() < 2
    assert score == pytest.approx(0.9)


def test_no_angle_has_a_smaller_rectangle() -> None:
    draw = np.random.default_rng(2)
    for _ in range(20):
        points = draw.integers(0, 50, (12, 2)).astype(float)
        found = smallest_rectangle(points)
        area = math.prod(sides(found))
        for degrees in np.arange(0, 90, 0.5):
            angle = math.radians(degrees)
            axes = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
            assert area <= np.ptp(points @ axes.T, axis=0).prod() + 1e-6
        places = (points - found[0]) @ np.stack([found[1] - found[0], found[3] - found[0]], 1)
        limits = np.array([side * side for side in sides(found)])
        assert (places >= -1e-6).all()
        assert (places <= limits + 1e-6).all()


def test_a_region_is_enlarged_by_its_area_and_perimeter() -> None:
    margin = 10 * 4 * 1.8 / 28
    wider = rectangle(20 - margin, 30 - margin, 10 + 2 * margin, 4 + 2 * margin)
    np.testing.assert_allclose(enlarge(rectangle(20, 30, 10, 4)), wider)
    np.testing.assert_allclose(enlarge(turned(rectangle(20, 30, 10, 4), 25)), turned(wider, 25))


def test_regions_are_in_pixels_of_the_page_and_weak_or_thin_ones_are_dropped() -> None:
    output = np.zeros((1, 1, 64, 128), np.float32)
    output[0, 0, 40:48, 20:40] = 0.9
    output[0, 0, 10:18, 60:90] = 0.61
    output[0, 0, 8:16, 10:40] = 0.8
    output[0, 0, 30:38, 100:120] = 0.59
    output[0, 0, 55:57, 20:90] = 1.0
    page = np.zeros((128, 512, 3), np.uint8)
    found = regions(page, output)
    np.testing.assert_allclose(found["scores"], [0.8, 0.61, 0.9], rtol=1e-6)
    places = [(10, 8, 30, 8), (60, 10, 30, 8), (20, 40, 20, 8)]
    expected = np.stack([enlarge(rectangle(*place)) for place in places]) * (4, 2)
    np.testing.assert_allclose(found["boxes"], expected, rtol=1e-5)
    none = regions(page, np.zeros_like(output))
    assert (none["boxes"].shape, none["scores"].shape) == ((0, 4, 2), (0,))


def test_a_region_ends_at_the_edge_of_the_page() -> None:
    found = regions(np.zeros((20, 40, 1), np.uint8), np.ones((1, 1, 20, 40), np.float32))
    np.testing.assert_allclose(found["boxes"], [rectangle(0, 0, 40, 20)])


def test_lines_are_read_from_the_top_and_from_the_left() -> None:
    boxes = np.stack(
        [rectangle(*place) for place in ((50, 41, 9, 8), (50, 0, 9, 8), (0, 3, 9, 8), (0, 40, 9, 8))]
    )
    assert reading_order(boxes) == [2, 1, 3, 0]
    assert reading_order(np.empty((0, 4, 2))) == []
