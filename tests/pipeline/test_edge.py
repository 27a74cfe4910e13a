"""Contracts of edges: what each policy keeps, and that every item is accounted for."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.pipeline.edge import DropReason, EdgeBuffer, EdgeContract, EdgeCounts, EdgePolicy
from fairlead.units import Seconds


def run(contract: EdgeContract, offered: int) -> tuple[list[int], list[tuple[int, str]]]:
    """Offer numbers one second apart without a take; return what is held in the end, and the drops."""
    edge: EdgeBuffer[int] = EdgeBuffer(contract)
    drops = []
    for number in range(offered):
        if edge.must_wait:
            break
        drops += [(drop.item, str(drop.reason)) for drop in edge.offer(number, float(number))]
    held = []
    while len(edge):
        item, expired = edge.take(float(offered))
        assert item is not None
        assert expired == []
        held.append(item)
    return held, drops


@pytest.mark.parametrize(
    ("policy", "held", "drops"),
    [
        ("block", [0, 1, 2], []),
        ("drop_oldest", [3, 4, 5], [(0, "oldest"), (1, "oldest"), (2, "oldest")]),
        ("drop_newest", [0, 1, 2], [(3, "newest"), (4, "newest"), (5, "newest")]),
        ("latest_only", [5], [(number, "superseded") for number in range(5)]),
        ("sample(1)", [0, 1, 2], []),
        ("sample(2)", [0, 2, 4], [(1, "sampled"), (3, "sampled"), (5, "sampled")]),
        ("sample(4)", [0, 4], [(1, "sampled"), (2, "sampled"), (3, "sampled"), (5, "sampled")]),
    ],
)
def test_a_policy_keeps_what_it_says(policy: str, held: list[int], drops: list[tuple[int, str]]) -> None:
    assert run(EdgeContract.parse(policy, depth=3), 6) == (held, drops)


CONTRACTS = st.builds(
    lambda policy, depth, age, every: EdgeContract(
        policy, depth, age, every if policy is EdgePolicy.SAMPLE else 1
    ),
    st.sampled_from(EdgePolicy),
    st.integers(1, 4),
    st.none() | st.floats(0.5, 5).map(Seconds),
    st.integers(1, 4),
)
STEPS = st.lists(st.tuples(st.sampled_from(["offer", "take"]), st.floats(0, 2)), max_size=60)


@given(CONTRACTS, STEPS)
def test_every_item_is_accounted_for_at_every_step(
    contract: EdgeContract, steps: list[tuple[str, float]]
) -> None:
    edge: EdgeBuffer[int] = EdgeBuffer(contract)
    numbers, now = itertools.count(), 0.0
    taken: list[int] = []
    dropped: list[int] = []
    times: dict[int, float] = {}
    for step, pause in steps:
        now += pause
        if step == "take":
            item, drops = edge.take(now)
            if item is not None:
                assert contract.max_age is None or now - times[item] <= contract.max_age
                taken.append(item)
        elif not edge.must_wait:
            number = next(numbers)
            times[number] = now
            drops = edge.offer(number, now)
        else:
            assert len(edge) == contract.depth
            continue
        dropped += [drop.item for drop in drops]
        counts = edge.counts
        assert counts.offered == counts.taken + counts.held + sum(counts.dropped.values()) == len(times)
        assert (counts.taken, counts.held) == (len(taken), len(edge))
        assert sum(counts.dropped.values()) == len(dropped)
        assert len(edge) <= contract.depth
    assert taken == sorted(taken)
    assert len({*taken, *dropped}) == len(taken) + len(dropped)


def test_an_item_expires_after_its_age() -> None:
    edge: EdgeBuffer[str] = EdgeBuffer(EdgeContract(max_age=Seconds(2.0)))
    edge.offer("old", 0.0)
    edge.offer("young", 1.0)
    assert edge.take(2.0) == ("old", [])
    edge.offer("late", 1.5)
    item, drops = edge.take(3.25)
    assert (item, [(drop.item, drop.reason) for drop in drops]) == ("late", [("young", DropReason.EXPIRED)])
    assert edge.take(9.0) == (None, [])
    assert edge.counts == EdgeCounts(3, 2, 0, {DropReason.EXPIRED: 1})


def test_age_can_count_from_the_capture() -> None:
    edge: EdgeBuffer[float] = EdgeBuffer(EdgeContract(max_age=Seconds(2.0)), captured=lambda item: item)
    edge.offer(7.0, 100.0)
    edge.offer(98.5, 100.0)
    item, drops = edge.take(100.5)
    assert (item, [drop.item for drop in drops]) == (98.5, [7.0])


def test_an_offer_that_must_wait_is_an_error_and_counts_nothing() -> None:
    edge: EdgeBuffer[int] = EdgeBuffer(EdgeContract(depth=1))
    edge.offer(0, 0.0)
    assert edge.is_full
    with pytest.raises(ValueError, match="block"):
        edge.offer(1, 0.0)
    assert edge.counts == EdgeCounts(1, 0, 1, {})


def test_only_an_item_that_is_sampled_has_to_wait() -> None:
    edge: EdgeBuffer[int] = EdgeBuffer(EdgeContract(EdgePolicy.SAMPLE, depth=1, every=2))
    edge.offer(0, 0.0)
    assert edge.is_full
    assert not edge.must_wait
    assert [drop.reason for drop in edge.offer(1, 0.0)] == [DropReason.SAMPLED]
    assert edge.must_wait


@pytest.mark.parametrize("policy", ["block", "drop_oldest", "drop_newest", "latest_only", "sample(12)"])
def test_a_policy_is_written_as_it_is_read(policy: str) -> None:
    assert str(EdgeContract.parse(f" {policy} ")) == policy


@pytest.mark.parametrize(
    "policy", ["", "drop", "BLOCK", "sample", "sample()", "sample(0)", "sample(-1)", "sample(2"]
)
def test_an_unknown_policy_is_refused_with_the_known_ones(policy: str) -> None:
    with pytest.raises(
        ValueError, match=r"write block, drop_oldest, drop_newest, latest_only or sample\(n\)"
    ):
        EdgeContract.parse(policy)


@pytest.mark.parametrize(
    ("contract", "fault"),
    [
        ({"depth": 0}, "depth 0"),
        ({"depth": 257}, "1 to 256"),
        ({"max_age": 0.0}, "max_age 0.0"),
        ({"max_age": float("nan")}, "max_age nan"),
        ({"every": 2}, "only sample"),
        ({"policy": EdgePolicy.SAMPLE, "every": 0}, "only sample"),
    ],
)
def test_an_impossible_contract_is_refused(contract: dict[str, object], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        EdgeContract(**contract)  # type: ignore[arg-type]  # a table of faults
