"""The reorder buffer: order always, and a bounded wait for what is missing."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.pipeline.work.reorder import ReorderBuffer


@given(st.permutations(range(30)), st.integers(0, 5))
def test_any_order_comes_out_in_order(order: list[int], first: int) -> None:
    buffer: ReorderBuffer[int] = ReorderBuffer(math.inf, first)
    out = []
    for now, number in enumerate(order):
        assert buffer.add(number, number, float(now)) == (number >= first)
        out += buffer.ready(float(now))
    assert out == [*range(first, 30)]
    assert (len(buffer), buffer.skipped, buffer.refused) == (0, 0, first)
    assert buffer.due() == math.inf


STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "add", "drop"]), st.integers(0, 25), st.floats(0, 3)), max_size=60
)


@given(STEPS, st.floats(0, 6))
def test_no_item_is_lost_out_of_order_or_late(steps: list[tuple[str, int, float]], deadline: float) -> None:
    buffer: ReorderBuffer[int] = ReorderBuffer(deadline)
    now, out = 0.0, []
    added: dict[int, float] = {}
    dropped: set[int] = set()
    refused = 0
    for step, number, pause in steps:
        now += pause
        if step == "drop":
            buffer.drop(number)
            dropped.add(number)
        elif buffer.add(number, number, now):
            assert number not in added
            added[number] = now
        else:
            refused += 1
        out += buffer.ready(now)
        waiting = added.keys() - {*out}
        assert all(added[each] + deadline > now for each in waiting)
        assert len(buffer) == len(waiting)
        assert buffer.due() == min((added[each] + deadline for each in waiting), default=math.inf)
    last = out + buffer.ready(math.inf)
    assert last == sorted(added)
    assert buffer.refused == refused
    missing = {*range(buffer.next_sequence)} - added.keys()
    assert len(missing - dropped) <= buffer.skipped <= len(missing)


def test_a_gap_is_waited_for_until_the_deadline() -> None:
    buffer: ReorderBuffer[str] = ReorderBuffer(10.0)
    buffer.add(2, "c", 1.0)
    buffer.add(1, "b", 9.0)
    assert buffer.ready(10.9) == []
    assert buffer.due() == 11.0
    assert buffer.ready(11.0) == ["b", "c"]
    assert (buffer.skipped, buffer.next_sequence) == (1, 3)
    assert not buffer.add(0, "a", 11.5)
    assert buffer.refused == 1


def test_an_item_that_expires_takes_along_only_those_before_it() -> None:
    buffer: ReorderBuffer[str] = ReorderBuffer(10.0)
    buffer.add(1, "b", 0.0)
    buffer.add(4, "e", 5.0)
    buffer.add(2, "c", 6.0)
    assert buffer.ready(10.0) == ["b", "c"]
    assert buffer.due() == 15.0
    assert buffer.ready(15.0) == ["e"]
    assert buffer.skipped == 2


def test_a_dropped_frame_is_not_waited_for() -> None:
    buffer: ReorderBuffer[str] = ReorderBuffer(math.inf)
    buffer.add(2, "c", 0.0)
    buffer.drop(0)
    assert buffer.ready(0.0) == []
    buffer.drop(1)
    assert buffer.ready(0.0) == ["c"]
    assert (buffer.skipped, buffer.next_sequence) == (0, 3)


def test_a_number_is_accepted_once() -> None:
    buffer: ReorderBuffer[str] = ReorderBuffer(math.inf)
    assert buffer.add(1, "b", 0.0)
    assert not buffer.add(1, "again", 0.0)
    buffer.drop(1)
    buffer.drop(3)
    assert not buffer.add(3, "dropped", 0.0)
    buffer.add(0, "a", 0.0)
    assert buffer.ready(0.0) == ["a", "b"]
    assert buffer.refused == 2


@pytest.mark.parametrize("deadline", [-1.0, math.nan])
def test_an_impossible_deadline_is_refused(deadline: float) -> None:
    with pytest.raises(ValueError, match="deadline"):
        ReorderBuffer(deadline)
