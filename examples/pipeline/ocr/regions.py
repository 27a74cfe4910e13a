"""Regions of text in what the detector makes of a page: a probability for each pixel.

The method is that of differentiable binarization: pixels above a threshold form components, the smallest
rectangle around each component is a region, and it is enlarged, because the detector was trained with regions
that are shrunk. NumPy alone.
"""

from typing import Any, Final

import numpy as np

from fairlead.pipeline import Record, stage

THRESHOLD: Final = 0.3
"""The probability from which on a pixel is text."""
LEAST_SCORE: Final = 0.6
"""The mean probability from which on a component is a region."""
LEAST_SIDE: Final = 3.0
"""Pixels of the detector's output; smaller rectangles are noise."""
ENLARGE: Final = 1.8
"""Each side of a rectangle moves outwards by area * this / perimeter; of five values from 1.4 to 2.4, this
one kept the most spaces of the page that the example reads."""
Array = np.ndarray[Any, Any]


@stage(outputs=Record)
def regions(page: Any, output: Any) -> dict[str, Any]:
    """Return the regions of a page in reading order: corners in its pixels (`boxes`), and their `scores`."""
    probabilities = output[0, 0]
    found = [(box, score) for box, score in rectangles(probabilities) if score >= LEAST_SCORE]
    factors = np.array(page.shape[1::-1]) / np.array(probabilities.shape[::-1])
    boxes = np.array([enlarge(box) for box, _ in found]).reshape(-1, 4, 2) * factors
    boxes = np.clip(boxes, 0, page.shape[1::-1])
    order = reading_order(boxes)
    scores = np.array([score for _, score in found], np.float32)
    return {"boxes": boxes[order].astype(np.float32), "scores": scores[order]}


def rectangles(probabilities: Array) -> list[tuple[Array, float]]:
    """Return the smallest rectangle around each component, with the mean probability of the component."""
    sums = np.pad(probabilities.astype(np.float64).cumsum(1), ((0, 0), (1, 0)))
    found = []
    for runs in components(probabilities > THRESHOLD):
        box = smallest_rectangle(corners(runs))
        if min(sides(box)) >= LEAST_SIDE:
            found.append((box, mean_of(sums, runs)))
    return found


def components(mask: Array) -> list[Array]:
    """Return the 8-connected components of a mask, each as its runs: rows of (y, first x, last x + 1)."""
    edges = np.diff(np.pad(mask.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    rows, starts = np.nonzero(edges == 1)
    ends = np.nonzero(edges == -1)[1]
    parents = list(range(len(rows)))
    first = np.searchsorted(rows, np.arange(mask.shape[0] + 1)).tolist()
    left, right = starts.tolist(), ends.tolist()
    for y in range(1, mask.shape[0]):
        above, below = first[y - 1], first[y]
        while above < first[y] and below < first[y + 1]:
            if left[above] <= right[below] and left[below] <= right[above]:
                _join(parents, above, below)
            if right[above] < right[below]:
                above += 1
            else:
                below += 1
    roots = np.array([_root(parents, run) for run in range(len(rows))], np.intp)
    runs = np.stack([rows, starts, ends], 1)
    return [runs[roots == root] for root in np.unique(roots)]


def _root(parents: list[int], run: int) -> int:
    while parents[run] != run:
        parents[run] = run = parents[parents[run]]
    return run


def _join(parents: list[int], one: int, other: int) -> None:
    one, other = sorted((_root(parents, one), _root(parents, other)))
    parents[other] = one


def corners(runs: Array) -> Array:
    """Return the corners (x, y) of the pixels at both ends of each run."""
    y, start, end = runs.T
    x = np.concatenate([start, start, end, end])
    return np.stack([x, np.concatenate([y, y + 1, y, y + 1])], 1).astype(np.float64)


def smallest_rectangle(points: Array) -> Array:
    """Return the corners of the smallest rectangle around points: top left, top right, and so on clockwise.

    One of its sides lies along a side of the convex hull. The top is the side nearest to the horizontal.
    """
    hull = convex_hull(points)
    steps = np.roll(hull, -1, axis=0) - hull
    along = steps / np.linalg.norm(steps, axis=1, keepdims=True)
    flat = np.abs(along[:, 0]) >= np.abs(along[:, 1])
    along = np.where(flat[:, np.newaxis], along, np.stack([along[:, 1], -along[:, 0]], 1))
    along = np.where(along[:, :1] < 0, -along, along)
    down = np.stack([-along[:, 1], along[:, 0]], 1)
    across, height = hull @ along.T, hull @ down.T
    lows = np.stack([across.min(0), height.min(0)], 1)
    highs = np.stack([across.max(0), height.max(0)], 1)
    best = int((highs - lows).prod(1).argmin())
    axes = np.stack([along[best], down[best]])
    (x0, y0), (x1, y1) = lows[best], highs[best]
    made: Array = np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]]) @ axes
    return made


def convex_hull(points: Array) -> Array:
    """Return the corners of the convex hull of points, clockwise as images are shown."""
    ordered = np.unique(points, axis=0).tolist()
    return np.array([*_chain(ordered), *_chain(ordered[::-1])])


def _chain(points: list[list[float]]) -> list[list[float]]:
    """Return one side of the hull of ordered points, without its last one."""
    kept: list[list[float]] = []
    for x, y in points:
        while len(kept) > 1:
            (x0, y0), (x1, y1) = kept[-2:]
            if (x1 - x0) * (y - y0) > (y1 - y0) * (x - x0):
                break
            kept.pop()
        kept.append([x, y])
    return kept[:-1]


def sides(box: Array) -> tuple[float, float]:
    """Return width and height of a rectangle."""
    return float(np.linalg.norm(box[1] - box[0])), float(np.linalg.norm(box[3] - box[0]))


def mean_of(sums: Array, runs: Array) -> float:
    """Return the mean over the pixels of runs, from the sums of each row up to each x."""
    y, start, end = runs.T
    return float((sums[y, end] - sums[y, start]).sum() / (end - start).sum())


def enlarge(box: Array) -> Array:
    """Return a rectangle with the margin by which the detector's regions are too small."""
    width, height = sides(box)
    margin = width * height * ENLARGE / (2 * (width + height))
    across, down = (box[1] - box[0]) / width * margin, (box[3] - box[0]) / height * margin
    made: Array = box + np.stack([-across - down, across - down, across + down, down - across])
    return made


def reading_order(boxes: Array) -> list[int]:
    """Return the rows of boxes from top to bottom, those on one line from left to right."""
    middles = boxes.mean(1) if len(boxes) else np.empty((0, 2))
    lines: list[list[int]] = []
    for row in np.argsort(middles[:, 1], kind="stable").tolist():
        first = lines[-1][0] if lines else row
        if lines and middles[row, 1] - middles[first, 1] <= sides(boxes[first])[1] / 2:
            lines[-1].append(row)
        else:
            lines.append([row])
    return [row for line in lines for row in sorted(line, key=lambda each: float(middles[each, 0]))]
