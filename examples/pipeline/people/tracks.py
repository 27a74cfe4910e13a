"""The last stages: objects of successive frames as tracks, and tracks that cross lines or are in zones.

Both have state for each stream, which `checkpoint` gives as JSON: after a crash they go on from there.
"""

import json
from pathlib import Path
from typing import Any, Final

from fairlead.pipeline import Record, stage

LEAST_OVERLAP: Final = 0.25
"""Intersection over union with the place where a track is expected, from which an object may belong to it."""
LEAST_HITS: Final = 3
"""Frames in which an object must be found before its track counts: one false box is none."""
MOST_MISSED: Final = 12
"""Frames for which a track without an object is kept: somewhat more than a second of the clip."""
FORGET: Final = 50
"""Frames after which the counter forgets a track."""
_INERTIA: Final = 0.7
"""The share of the speed that is kept when an object is found."""
Box = list[float]
Point = list[float]


@stage(inputs=Record, outputs=Record)
class Track:
    """Give each object the number of its track: the one whose expected place it overlaps most."""

    def open(self, state: Any) -> None:
        """Begin, or go on from a checkpoint."""
        self._next: int = state["next"] if state else 1
        self._tracks: list[dict[str, Any]] = state["tracks"] if state else []

    def process(self, record: Any) -> dict[str, Any]:
        """Return the tracks that are seen in this frame."""
        objects = record["objects"]
        for track in self._tracks:
            track["missed"] += 1
            track["box"] = _moved(track["box"], track["speed"])
        matched = pair(self._tracks, objects)
        for number, track in matched.items():
            _follow(track, objects[number]["box"])
        for number, found in enumerate(objects):
            if number not in matched:
                self._tracks.append(self._begin(found))
        self._tracks = [track for track in self._tracks if track["missed"] <= MOST_MISSED]
        seen = [each for each in self._tracks if not each["missed"] and each["hits"] >= LEAST_HITS]
        return {"tracks": [{key: track[key] for key in ("id", "kind", "box")} for track in seen]}

    def checkpoint(self) -> Any:
        """Return the state."""
        return {"next": self._next, "tracks": self._tracks}

    def _begin(self, found: dict[str, Any]) -> dict[str, Any]:
        number, self._next = self._next, self._next + 1
        box = [float(each) for each in found["box"]]
        return {"id": number, "kind": found["kind"], "box": box, "last": box, "speed": [0.0, 0.0],
                "missed": 0, "hits": 1}  # fmt: skip


def pair(tracks: list[dict[str, Any]], objects: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Return the track of each object that has one, by the object's number; the largest overlap first."""
    candidates = [
        (-overlap(track["box"], found["box"]), track["id"], number, track)
        for track in tracks
        for number, found in enumerate(objects)
        if track["kind"] == found["kind"]
    ]
    pairs: dict[int, dict[str, Any]] = {}
    taken: set[int] = set()
    for negative, identity, number, track in sorted(candidates, key=lambda each: each[:3]):
        if -negative >= LEAST_OVERLAP and identity not in taken and number not in pairs:
            taken.add(identity)
            pairs[number] = track
    return pairs


def overlap(one: Box, two: Box) -> float:
    """Return the intersection over union of two boxes."""
    wide = min(one[2], two[2]) - max(one[0], two[0])
    tall = min(one[3], two[3]) - max(one[1], two[1])
    if wide <= 0 or tall <= 0:
        return 0.0
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, two)]
    return wide * tall / (sum(areas) - wide * tall)


def _moved(box: Box, speed: Point) -> Box:
    return [box[0] + speed[0], box[1] + speed[1], box[2] + speed[0], box[3] + speed[1]]


def _follow(track: dict[str, Any], box: Box) -> None:
    """Bring a track to the place where its object is found; the speed is that since it was seen last."""
    for axis in (0, 1):
        before, now = (each[axis] + each[axis + 2] for each in (track["last"], box))
        step = (now - before) / 2 / track["missed"]
        track["speed"][axis] = _INERTIA * track["speed"][axis] + (1 - _INERTIA) * step
    track["box"] = track["last"] = [float(each) for each in box]
    track["missed"] = 0
    track["hits"] += 1


@stage(inputs=Record, outputs=Record)
class Count:
    """Count what crosses lines of scene.json and what is in its zones; an object is where its box ends."""

    def __init__(self, scene: dict[str, Any] | None = None) -> None:
        known = scene or json.loads(Path(__file__).with_name("scene.json").read_text())
        self._lines: dict[str, list[Point]] = known["lines"]
        self._zones: dict[str, list[Point]] = known["zones"]

    def open(self, state: Any) -> None:
        """Begin, or go on from a checkpoint."""
        self._frame: int = state["frame"] if state else 0
        self._known: dict[str, Any] = state["known"] if state else {}
        self._crossed: dict[str, int] = state["crossed"] if state else {}
        self._visited: dict[str, int] = state["visited"] if state else {}

    def process(self, record: Any) -> dict[str, Any]:
        """Return what is seen now and inside the zones now, and what has crossed and visited so far."""
        self._frame += 1
        seen: dict[str, int] = {}
        inside: dict[str, int] = {}
        for track in record["tracks"]:
            foot = [(track["box"][0] + track["box"][2]) / 2, track["box"][3]]
            known = self._known.setdefault(str(track["id"]), {"foot": foot, "done": []})
            _add(seen, track["kind"])
            self._cross(known, foot, track["kind"])
            for name, zone in self._zones.items():
                if is_inside(foot, zone):
                    _add(inside, f"{name} {track['kind']}")
                    self._once(known, self._visited, f"{name} {track['kind']}")
            known["foot"], known["frame"] = foot, self._frame
        limit = self._frame - FORGET
        self._known = {name: each for name, each in self._known.items() if each["frame"] > limit}
        return {
            "seen": seen,
            "inside": inside,
            "crossed": dict(self._crossed),
            "visited": dict(self._visited),
        }

    def checkpoint(self) -> Any:
        """Return the state."""
        return {
            "frame": self._frame,
            "known": self._known,
            "crossed": self._crossed,
            "visited": self._visited,
        }

    def _cross(self, known: dict[str, Any], foot: Point, kind: str) -> None:
        for name, line in self._lines.items():
            direction = crossing(known["foot"], foot, line)
            if direction:
                self._once(known, self._crossed, f"{name} {kind} {direction}")

    def _once(self, known: dict[str, Any], counts: dict[str, int], what: str) -> None:
        """Count something of a track at most once: one that waits on a line does not add up."""
        if what not in known["done"]:
            known["done"].append(what)
            _add(counts, what)


def crossing(before: Point, after: Point, line: list[Point]) -> str:
    """Return to which hand a step crosses a line, seen from its first point; empty: it does not."""
    begin, end = line
    right = [_is_right(point, begin, end) for point in (before, after)]
    if right[0] == right[1] or _is_right(begin, before, after) == _is_right(end, before, after):
        return ""
    return "right" if right[1] else "left"


def _is_right(point: Point, begin: Point, end: Point) -> bool:
    """Return whether a point is on the right hand of a line or on it; y grows downwards."""
    across = (end[0] - begin[0]) * (point[1] - begin[1]) - (end[1] - begin[1]) * (point[0] - begin[0])
    return across >= 0


def is_inside(point: Point, zone: list[Point]) -> bool:
    """Return whether a point lies in a polygon: a ray from it crosses an odd number of sides."""
    odd = False
    for one, two in zip(zone, [*zone[1:], zone[0]], strict=True):
        if (one[1] > point[1]) != (two[1] > point[1]):
            place = one[0] + (point[1] - one[1]) / (two[1] - one[1]) * (two[0] - one[0])
            odd ^= point[0] < place
    return odd


def _add(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1
