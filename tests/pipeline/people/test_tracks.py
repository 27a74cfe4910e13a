"""Tracks and counts, as tables of where people walk: a crossing counts once, also after occlusion."""

import json
from typing import Any

import pytest

from examples.pipeline.people.tracks import LEAST_HITS, MOST_MISSED, Count, Track, crossing, is_inside

SCENE = {
    "lines": {"street": [[0, 100], [200, 100]]},
    "zones": {"square": [[0, 150], [200, 150], [200, 300], [0, 300]]},
}
Place = tuple[str, float, float]
Frames = list[list[Place]]


def play(frames: Frames, crash: int = -1) -> tuple[dict[str, Any], set[int]]:
    """Return the last counts and the numbers of the tracks; `crash`: both stages begin again there."""
    track, count = Track(), Count(SCENE)
    track.open(None)
    count.open(None)
    last: dict[str, Any] = {}
    numbers: set[int] = set()
    for number, frame in enumerate(frames):
        if number == crash:
            states = [json.loads(json.dumps(each.checkpoint())) for each in (track, count)]
            track, count = Track(), Count(SCENE)
            track.open(states[0])
            count.open(states[1])
        found = [
            {"kind": kind, "score": 0.7, "box": [x - 10, foot - 40, x + 10, foot]} for kind, x, foot in frame
        ]
        tracks = track.process({"objects": found})
        numbers |= {each["id"] for each in tracks["tracks"]}
        last = count.process(tracks)
    return last, numbers


def walk(begin: float, end: float, step: float = 4, x: float = 60, kind: str = "person") -> Frames:
    """Return one walker from one height to another."""
    count = round(abs(end - begin) / step)
    return [[(kind, x, begin + (end - begin) * number / count)] for number in range(count + 1)]


def hide(frames: Frames, begin: int, end: int) -> Frames:
    """Return frames in which nothing is found for a while."""
    return [[] if begin <= number < end else frame for number, frame in enumerate(frames)]


def both(one: Frames, two: Frames) -> Frames:
    """Return frames with what is in either."""
    return [[*a, *b] for a, b in zip(one, two, strict=True)]


DOWN, UP = walk(60, 140), walk(140, 60)
RIGHT, LEFT = "street person right", "street person left"


@pytest.mark.parametrize(
    ("frames", "crossed", "tracks"),
    [
        (DOWN, {RIGHT: 1}, 1),
        (UP, {LEFT: 1}, 1),
        (walk(60, 96), {}, 1),
        (walk(60, 100), {RIGHT: 1}, 1),
        (DOWN + UP, {RIGHT: 1, LEFT: 1}, 1),
        (DOWN + UP + DOWN + UP, {RIGHT: 1, LEFT: 1}, 1),
        (walk(60, 140, kind="vehicle"), {"street vehicle right": 1}, 1),
        (walk(60, 140, x=250), {}, 1),
        (hide(DOWN, 7, 14), {RIGHT: 1}, 1),
        (hide(walk(60, 180), 8, 8 + MOST_MISSED), {RIGHT: 1}, 1),
        (hide(walk(60, 180), 8, 9 + MOST_MISSED), {}, 2),
        (both(DOWN, walk(60, 140, x=120)), {RIGHT: 2}, 2),
        (both(DOWN, walk(140, 60, x=75)), {RIGHT: 1, LEFT: 1}, 2),
        (both(DOWN, walk(60, 140, kind="vehicle")), {RIGHT: 1, "street vehicle right": 1}, 2),
        (walk(90, 106)[: LEAST_HITS - 1], {}, 0),
    ],
    ids=[
        "down",
        "up",
        "up to the line",
        "onto the line",
        "there and back",
        "again and again",
        "a vehicle",
        "beside the line",
        "occluded at the line",
        "occluded as long as a track is kept",
        "occluded for longer",
        "two at once",
        "two that meet",
        "a person before a vehicle",
        "too short to count",
    ],
)
def test_a_crossing_counts_once(frames: Frames, crossed: dict[str, int], tracks: int) -> None:
    record, numbers = play(frames)
    assert record["crossed"] == crossed
    assert len(numbers) == tracks


def test_a_track_that_is_expected_elsewhere_is_not_taken() -> None:
    """Two walkers who meet keep their numbers: each goes on as fast as before."""
    track = Track()
    track.open(None)
    frames = both(walk(60, 140, x=60), walk(140, 60, x=66))
    ends: dict[int, list[float]] = {}
    for frame in frames:
        found = [{"kind": kind, "box": [x - 10, foot - 40, x + 10, foot]} for kind, x, foot in frame]
        for each in track.process({"objects": found})["tracks"]:
            ends.setdefault(each["id"], []).append(each["box"][3])
    assert {number: (feet[0] < 100, feet[-1] > 100) for number, feet in ends.items()} == {
        1: (True, True),
        2: (False, False),
    }


def test_what_is_in_a_zone_is_counted_now_and_once_in_all() -> None:
    assert play(walk(120, 200))[0]["inside"] == {"square person": 1}
    left = play(walk(120, 200) + walk(200, 120))[0]
    assert left["inside"] == {}
    assert left["visited"] == {"square person": 1}
    assert left["seen"] == {"person": 1}


@pytest.mark.parametrize("crash", [1, 2, 9, 10, 11, 20])
def test_a_checkpoint_has_all_that_counts(crash: int) -> None:
    frames = both(hide(DOWN, 8, 12), walk(140, 60, x=75))
    assert play(frames, crash) == play(frames)


@pytest.mark.parametrize(
    ("before", "after", "hand"),
    [
        ([5, 0], [5, 10], "right"),
        ([5, 10], [5, 0], "left"),
        ([5, 5], [5, 10], ""),
        ([5, 5], [5, 0], "left"),
        ([5, 0], [5, 5], "right"),
        ([15, 0], [15, 10], ""),
        ([9, 0], [12, 10], ""),
        ([8, 0], [11, 10], "right"),
        ([0, 4], [10, 4], ""),
    ],
)
def test_a_step_crosses_a_line_within_its_ends(before: list[float], after: list[float], hand: str) -> None:
    assert crossing(before, after, [[0, 5], [10, 5]]) == hand


@pytest.mark.parametrize(
    ("point", "inside"), [((5, 5), True), ((15, 5), False), ((5, 8), False), ((1, 8), True), ((9, 8), True)]
)
def test_a_point_is_in_a_polygon(point: tuple[float, float], inside: bool) -> None:
    notched = [[0.0, 0.0], [10.0, 0.0], [10.0, 10.0], [5.0, 6.0], [0.0, 10.0]]
    assert is_inside([*point], notched) is inside
