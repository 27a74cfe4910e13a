"""TierPlacement: what moves when, without any file."""

from fairlead.tiering.policies import POLICIES
from fairlead.tiering.program.placement import TierPlacement
from fairlead.units import Bytes


def placement(policy: str, capacity: int = 30) -> TierPlacement:
    """Return a placement with a policy."""
    return TierPlacement(POLICIES[policy](Bytes(capacity)))


def moves(placed: TierPlacement, now: float = 0.0) -> list[str]:
    """Do every move that is due; return them as `+a` and `-a`."""
    done = []
    while (move := placed.next_move(now)) is not None:
        placed.done(move, 10)
        done.append(f"{'+' if move.up else '-'}{move.key}")
    return done


def test_a_missed_file_is_promoted_and_the_least_used_one_demoted_first() -> None:
    placed = placement("lru")
    for key in "abc":
        placed.access(key, 10, fast=False)
    assert moves(placed) == ["+a", "+b", "+c"]
    placed.access("a", 10, fast=True)
    placed.access("d", 10, fast=False)
    assert moves(placed) == ["-b", "+d"]
    assert (placed.used, sorted(placed.fast)) == (30, ["a", "c", "d"])


def test_a_file_that_a_program_makes_is_on_the_fast_tier() -> None:
    placed = placement("lru-ghost")
    for key in "abcd":
        placed.access(key, 10, fast=True)
    assert moves(placed) == ["-a"]
    none = placement("none")
    none.access("a", 10, fast=True)
    assert moves(none) == ["-a"]


def test_a_demotion_that_is_due_is_given_up_when_the_file_is_used() -> None:
    placed = placement("lru")
    for key in "abcd":
        placed.access(key, 10, fast=True)
    placed.access("a", 10, fast=True)
    assert moves(placed) == ["-b"]
    assert "a" in placed.fast


def test_a_promotion_waits_for_room_and_a_failed_one_not_for_ever() -> None:
    placed = placement("lru")
    for key in "abc":
        placed.seen(key, 10, fast=True)
    placed.access("d", 10, fast=False)
    down = placed.next_move(0.0)
    assert down is not None
    assert not down.up
    placed.failed(down, 0.0)
    assert placed.next_move(0.5) is None, "no room for d before a has left"
    assert moves(placed, 1.0) == ["-a", "+d"]
    placed.access("e", 10, fast=False)
    assert moves(placed, 1.0)[0] == "-b"
    placed.access("f", 10, fast=False)
    now = 1.0
    while (move := placed.next_move(now)) is not None:
        placed.failed(move, now) if move.up else placed.done(move, 10)
        now += 100
    assert not placed.policy.holds("f")


def test_a_full_volume_ends_a_promotion_at_once() -> None:
    placed = placement("lru")
    placed.access("a", 10, fast=False)
    move = placed.next_move(0.0)
    assert move is not None
    placed.failed(move, 0.0, is_full=True)
    assert placed.next_move(1000.0) is None
    assert not placed.policy.holds("a")


def test_deleted_and_moved_files_are_forgotten() -> None:
    placed = placement("lru")
    placed.access("a", 10, fast=False)
    placed.gone("a")
    assert placed.next_move(0.0) is None
    placed.seen("b", 10, fast=True)
    placed.seen("b", 10, fast=False)
    assert (placed.used, placed.policy.holds("b")) == (0, False)


def test_another_policy_takes_over_what_is_there() -> None:
    placed = placement("lru")
    for key in "abc":
        placed.seen(key, 10, fast=True)
    placed.access("a", 10, fast=True)
    placed.replace_policy(POLICIES["lru"](Bytes(20)))
    assert moves(placed) == ["-b"]
    placed.replace_policy(POLICIES["none"](Bytes(20)))
    assert sorted(moves(placed)) == ["-a", "-c"]
