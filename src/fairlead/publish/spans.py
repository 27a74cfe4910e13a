"""Ranges of numbers, first and last both included, in order and apart: thousands of units in few words."""

from bisect import bisect_left
from collections.abc import Iterable
from itertools import islice

Spans = tuple[tuple[int, int], ...]


def count(spans: Spans) -> int:
    """Return how many numbers there are."""
    return sum(last - first + 1 for first, last in spans)


def union(spans: Iterable[tuple[int, int]]) -> Spans:
    """Return the numbers that are in any of the spans; they may overlap and come in any order."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def minus(spans: Spans, others: Spans) -> Spans:
    """Return the numbers that are in `spans` and not in `others`."""
    left: list[tuple[int, int]] = []
    for first, last in spans:
        at = first
        for low, high in islice(others, bisect_left(others, first, key=_last), None):
            if low > last:
                break
            if low > at:
                left.append((at, low - 1))
            at = high + 1
        if at <= last:
            left.append((at, last))
    return tuple(left)


def _last(span: tuple[int, int]) -> int:
    return span[1]


def highest(spans: Spans, number: int) -> Spans:
    """Return the highest so many numbers of the spans, or all where there are fewer."""
    taken: list[tuple[int, int]] = []
    for first, last in reversed(spans):
        if number <= 0:
            break
        start = max(first, last - number + 1)
        taken.append((start, last))
        number -= last - start + 1
    return tuple(reversed(taken))
