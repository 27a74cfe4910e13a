"""Sorted, disjoint ranges of numbers, first and last both included: thousands of units in little memory."""

from bisect import bisect_left
from collections.abc import Iterable
from itertools import islice

Spans = tuple[tuple[int, int], ...]


def count(spans: Spans) -> int:
    """Return the count of numbers."""
    return sum(last - first + 1 for first, last in spans)


def union(spans: Iterable[tuple[int, int]]) -> Spans:
    """Return the numbers that are in any of the spans; they may overlap and come in any order."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


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
    """Return the `number` highest numbers of the spans, or all where there are fewer."""
    taken: list[tuple[int, int]] = []
    for first, last in reversed(spans):
        if number <= 0:
            break
        start = max(first, last - number + 1)
        taken.append((start, last))
        number -= last - start + 1
    return tuple(reversed(taken))
