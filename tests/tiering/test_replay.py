"""What a replay counts, what a volume gets by it, and the frontier."""

import pytest

from fairlead.tiering.choice import choose, frontier
from fairlead.tiering.replay import TierResult, replay_all
from fairlead.tiering.speeds import TierSpeeds
from fairlead.units import Bytes, BytesPerSecond, Seconds
from tests.tiering.traces import accesses, trace

SPEEDS = TierSpeeds(BytesPerSecond(100), BytesPerSecond(50), Seconds(1))
"""10 bytes: 0.1 s on the fast volume, 1.2 s on the slow one; a hit saves 1.1 s, a promotion costs 1.3 s."""


def results(text: str, capacity: int) -> dict[str, TierResult]:
    """Return the results of every policy."""
    return replay_all([accesses(text)], Bytes(capacity), SPEEDS)


@pytest.mark.parametrize(
    ("text", "hits", "moves", "moved", "net"),
    [
        ("a a a", 2, 1, 10, 2 * 1.1 - 1.3),
        ("a b a", 0, 3, 30, -3 * 1.3),  # clean demotions cost nothing
        ("a! b", 0, 3, 30, -2 * 1.3 - 1.2),  # a is written on the fast tier: its demotion is a copy
        ("a a! b", 1, 3, 30, 1.1 - 2 * 1.3 - 1.2),
        ("a! b b! c", 1, 5, 50, 1.1 - 3 * 1.3 - 2 * 1.2),
        ("a! a b a c", 1, 5, 50, 1.1 - 4 * 1.3 - 1.2),  # its copy is clean again
        ("a=11 a=11", 0, 0, 0, 0.0),
    ],
)
def test_hits_save_and_moves_cost(text: str, hits: int, moves: int, moved: int, net: float) -> None:
    lru = results(text, 10)["lru"]
    assert (lru.hits, lru.moves, lru.bytes_moved) == (hits, moves, moved)
    assert lru.net_s == pytest.approx(net)


def test_a_dirty_file_that_grew_is_written_back_whole() -> None:
    lru = results("a! a=15 b=20", 20)["lru"]
    assert lru.bytes_moved == 10 + 15 + 20


def test_ratios_count_accesses_and_bytes() -> None:
    lru = results("a a b=30 b=30", 100)["lru"]
    assert (lru.hit_ratio, lru.byte_hit_ratio) == (0.5, 0.5)
    assert results("a=0 a=0", 100)["lru"].byte_hit_ratio == 0.0


def test_the_choice_saves_the_most_and_says_so() -> None:
    for text, capacity, name in (
        ("a b a b a b a b", 20, "arc"),
        ("a b c d a b c d", 20, "none"),
        ("a b a b c a d b e a f b g a h b", 20, "lru-ghost"),
    ):
        found = results(text, capacity)
        choice = choose(found)
        assert found[choice.name].net_s == max(each.net_s for each in found.values())
        if name in ("none", "lru-ghost"):
            assert choice.name == name
        assert ("no policy saves time" in choice.why) == (name == "none")


def test_the_frontier_has_no_beaten_policy() -> None:
    found = results("a b a b c a d b e a f b g a h b", 20)
    kept = frontier(found)
    assert kept[0] == "none"
    for name, each in found.items():
        beaten = any(o.moves <= each.moves and o.hits > each.hits for o in found.values())
        assert (name in kept) <= (not beaten)
    assert [found[name].hits for name in kept] == sorted({found[name].hits for name in kept})


def test_chunks_change_nothing() -> None:
    whole = trace(2_000)
    once = replay_all([whole], Bytes(20_000), SPEEDS)
    assert once == replay_all([whole[:7], whole[7:]], Bytes(20_000), SPEEDS)
