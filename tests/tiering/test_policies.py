"""Policies: known answers of another simulator, small traces by hand, and what holds for every trace."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.tiering.policies import POLICIES
from fairlead.tiering.policies.fast_tier import TieringPolicy
from fairlead.units import Bytes
from tests.tiering.traces import accesses, trace

LIBCACHESIM = {  # hits that libcachesim 0.3.5 counts on the same traces, by largest size and capacity
    (1, 18): {"lru": 443, "s3-fifo": 0, "2q": 607, "arc": 588},
    (1, 73): {"lru": 1680, "s3-fifo": 2018, "2q": 1893, "arc": 1872},
    (1, 184): {"lru": 3517, "s3-fifo": 3708, "2q": 3473, "arc": 3550},
    (1000, 9127): {"lru": 459, "s3-fifo": 805, "2q": 640, "arc": 636},
    (1000, 36511): {"lru": 1673, "s3-fifo": 2065, "2q": 1886, "arc": 1955},
    (1000, 91278): {"lru": 3501, "s3-fifo": 3687, "2q": 3470, "arc": 3565},
}


def hits(policy: TieringPolicy, text: str) -> str:
    """Return a letter for each access: h hit, p promoted, m missed; then what left, in brackets."""
    shown = ""
    for _, key, size, _ in accesses(text):
        shown += "h" if policy.access(key, size) else "p" if policy.promoted else "m"
        if policy.demoted:
            shown += f"[{''.join(policy.demoted)}]"
            policy.demoted.clear()
    return shown


@pytest.mark.parametrize(("largest", "capacity"), LIBCACHESIM)
def test_hits_are_those_of_another_simulator(largest: int, capacity: int) -> None:
    counted = {}
    for name in LIBCACHESIM[largest, capacity]:
        policy = POLICIES[name](Bytes(capacity))
        counted[name] = sum(policy.access(key, size) for _, key, size, _ in trace(largest=largest))
    assert counted == LIBCACHESIM[largest, capacity]


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("none", "a a a", "mmm"),
        ("lru", "a b a c a d", "pphp[b]hp[c]"),
        ("lru", "a=21 a=20 b=1", "mpp[a]"),
        ("lru", "a b a=15 b", "pph[b]p[a]"),  # a file that grows pushes others out
        ("lru", "a b a=21 b", "pph[a]h"),  # or leaves, when it fits no more
        ("lru-ghost", "a b a b c a c", "mmppmhp[b]"),
        ("lru-ghost", "a b c a c c", "mmmmph"),  # as many bytes of names as the tier has
        ("2q", "a=5 b=5 c=5 d=5 a=5 e=5 a=5 f=5 a=5", "pppphp[a]p[b]p[c]h"),
    ],
)
def test_small_traces(name: str, text: str, shown: str) -> None:
    assert hits(POLICIES[name](Bytes(20)), text) == shown


@pytest.mark.parametrize("name", POLICIES)
def test_a_tier_of_blocks_keeps_the_bytes_of_the_promotion(name: str) -> None:
    policy = POLICIES[name](Bytes(1000))
    policy.resizes = False
    shown = hits(policy, "a a a=1001 a")
    assert "[" not in shown
    assert shown.endswith("m" if name == "none" else "h")


STEPS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 60), st.integers(0, 5)), max_size=150)


@pytest.mark.parametrize("name", POLICIES)
@given(steps=STEPS, capacity=st.integers(1, 200))
def test_what_is_on_the_tier_fits_and_follows_from_the_moves(
    name: str, steps: list[tuple[int, int, int]], capacity: int
) -> None:
    policy = POLICIES[name](Bytes(capacity))
    fast: dict[str, int] = {}
    for number, size, act in steps:
        key = str(number)
        if act == 0:
            policy.remove(key)
            fast.pop(key, None)
        elif act == 1 and key not in fast:
            policy.remove(key)
            policy.adopt(key, size)
            fast[key] = size
        elif policy.access(key, size):
            assert key in fast
            fast[key] = size
        else:
            assert key not in fast
            if policy.promoted:
                fast[key] = size
        for left in policy.demoted:
            del fast[left]
        policy.demoted.clear()
        assert sum(fast.values()) <= capacity
        assert all(policy.holds(str(each)) == (str(each) in fast) for each in range(13))
