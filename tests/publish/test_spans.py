"""Ranges of numbers behave like the sets that they represent."""

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fairlead.offer import ranges
from fairlead.publish.spans import Spans, count, highest, minus, union

NUMBERS = st.sets(st.integers(0, 30))


def numbers(spans: Iterable[tuple[int, int]]) -> set[int]:
    return {number for first, last in spans for number in range(first, last + 1)}


def assert_canonical(spans: Spans) -> None:
    assert all(first <= last for first, last in spans)
    assert all(one[1] < other[0] for one, other in pairwise(spans))


@given(NUMBERS, NUMBERS, st.integers(-1, 40))
def test_operations_equal_those_of_sets(one: set[int], other: set[int], number: int) -> None:
    left, right = ranges(one), ranges(other)
    assert count(left) == len(one)
    for spans, expected in (
        (union((*left, *right)), one | other),
        (minus(left, right), one - other),
        (highest(left, number), set(sorted(one)[-number:] if number > 0 else ())),
    ):
        assert numbers(spans) == expected
        assert_canonical(spans)
