"""Dynamic batches: bounded in size and in waiting."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.pipeline.work.batch import Batcher, BatchPlan
from fairlead.units import Seconds


@given(st.integers(1, 5), st.floats(0, 4), st.lists(st.tuples(st.booleans(), st.floats(0, 3)), max_size=60))
def test_every_item_leaves_once_in_order_and_in_time(
    most: int, wait: float, steps: list[tuple[bool, float]]
) -> None:
    batcher: Batcher[int] = Batcher(most, Seconds(wait))
    now = 0.0
    out: list[int] = []
    arrived: list[float] = []
    for is_added, pause in steps:
        now += pause
        if is_added and not batcher.is_full:
            batcher.add(len(arrived), now)
            arrived.append(now)
        else:
            due = batcher.due()
            batch = batcher.take(now)
            assert bool(batch) == (due <= now)
            assert len(batch) <= most
            out += batch
            if len(out) < len(arrived):
                assert now < arrived[len(out)] + wait
        assert len(batcher) == len(arrived) - len(out)
    assert out + batcher.take(math.inf) == [*range(len(arrived))]
    assert batcher.due() == math.inf


def test_a_full_batch_is_due_at_once() -> None:
    batcher: Batcher[str] = Batcher(2, Seconds(10.0))
    assert batcher.due() == math.inf
    batcher.add("a", 5.0)
    assert batcher.due() == 15.0
    assert batcher.take(14.9) == []
    batcher.add("b", 6.0)
    assert batcher.due() == -math.inf
    with pytest.raises(ValueError, match="take it first"):
        batcher.add("c", 6.0)
    assert batcher.take(6.0) == ["a", "b"]


def test_the_first_item_decides_how_long_a_batch_waits() -> None:
    batcher: Batcher[str] = Batcher(8, Seconds(10.0))
    batcher.add("a", 5.0)
    batcher.add("b", 14.0)
    assert batcher.take(15.0) == ["a", "b"]
    batcher.add("c", 16.0)
    assert batcher.due() == 26.0


def test_without_a_wait_every_item_is_a_batch() -> None:
    batcher: Batcher[str] = Batcher(8, Seconds(0.0))
    batcher.add("a", 5.0)
    assert batcher.take(5.0) == ["a"]
    assert batcher.take(5.0) == []


def test_a_plan_says_what_a_batch_waits_for_and_what_it_takes_at_most() -> None:
    batcher: Batcher[str] = Batcher(1, Seconds(0.0))
    batcher.follow(BatchPlan(2, 3, Seconds(10.0)))
    batcher.add("a", 5.0)
    with pytest.raises(ValueError, match="take it first"):
        batcher.follow(BatchPlan(1, 1, Seconds(0.0)))
    assert batcher.due() == 15.0
    batcher.add("b", 6.0)
    assert batcher.due() == -math.inf
    assert not batcher.is_full
    batcher.add("c", 6.0)
    assert batcher.is_full
    assert batcher.take(6.0) == ["a", "b", "c"]


def test_a_batch_has_waited_if_it_was_asked_for_too_early() -> None:
    batcher: Batcher[str] = Batcher(2, Seconds(10.0))
    assert batcher.take(0.0) == []
    batcher.add("a", 5.0)
    batcher.add("b", 5.0)
    assert batcher.take(5.0) == ["a", "b"]
    assert not batcher.has_waited, "without an item nothing waits"
    batcher.add("c", 5.0)
    assert batcher.take(6.0) == []
    batcher.add("d", 7.0)
    assert batcher.take(7.0) == ["c", "d"]
    assert batcher.has_waited


@pytest.mark.parametrize(("most", "wait"), [(0, 1.0), (1, -1.0), (1, math.nan)])
def test_an_impossible_batch_is_refused(most: int, wait: float) -> None:
    with pytest.raises(ValueError, match="batch"):
        Batcher(most, Seconds(wait))
