"""SplitQueue: leases, their end, failures, copies, and where the bytes are."""

from fairlead.splitting.chunks import TimedChunks
from fairlead.splitting.items import BytesAt, SplitInput
from fairlead.splitting.queue import Completion, SplitQueue
from fairlead.splitting.rules import SplitRules


def queue(count: int, *, stored: bool = True, rule: TimedChunks | None = None) -> SplitQueue:
    """Return a queue of so many inputs."""
    made = SplitQueue(chunks=rule)
    made.window.add(SplitInput(number, f"f{number}", "", 1, stored) for number in range(count))
    made.complete = True
    return made


def asks(made: SplitQueue, name: str, now: float, *held: int, has: BytesAt = BytesAt.ALL) -> list[int]:
    """Return the inputs that a worker gets."""
    made.hear(name, "device", 1, has, held, now)
    return [each.input.id for each in made.grant(name, now)]


def ends(made: SplitQueue, name: str, now: float, *numbers: int, interval: float = 1.0) -> None:
    """Have a worker end inputs."""
    made.complete_inputs(name, [Completion(number, interval, interval) for number in numbers], now)


def test_an_unmeasured_worker_gets_one_input() -> None:
    made = queue(100)
    assert asks(made, "a", 0.0) == [0]
    assert asks(made, "b", 0.0) == [1]
    assert asks(made, "a", 0.1, 0) == []


def test_a_measured_worker_gets_two_seconds_of_work() -> None:
    made = queue(10_000)
    asks(made, "a", 0.0)
    ends(made, "a", 0.1, 0, interval=0.1)
    assert len(asks(made, "a", 0.1)) == 20


def test_a_chunk_is_a_quarter_of_the_time_left() -> None:
    made = queue(41)
    asks(made, "a", 0.0)
    ends(made, "a", 0.1, 0, interval=0.1)
    assert len(asks(made, "a", 0.1)) == 10


def test_what_a_worker_does_not_hold_any_more_goes_to_others_first() -> None:
    made = queue(3)
    assert asks(made, "a", 0.0) == [0]
    assert asks(made, "a", 1.0) == [0]
    assert asks(made, "b", 1.0) == [1]


def test_a_lease_that_ends_gives_the_input_to_others() -> None:
    made = queue(2)
    asks(made, "a", 0.0)
    assert made.expire(9.9) == 0
    assert made.expire(10.1) == 1
    assert asks(made, "b", 10.2) == [0]


def test_a_heartbeat_renews_the_lease() -> None:
    made = queue(1)
    asks(made, "a", 0.0)
    made.hear("a", "device", 1, BytesAt.ALL, (0,), 8.0)
    assert made.expire(17.9) == 0
    assert made.expire(18.1) == 1


def test_a_late_result_is_counted_once() -> None:
    made = queue(1)
    asks(made, "a", 0.0)
    made.expire(11.0)
    assert asks(made, "b", 11.0) == [0]
    ends(made, "a", 12.0, 0)
    assert made.left == 0
    assert made.workers["b"].dropped == {0}


def test_a_failure_is_final_where_no_other_worker_tries_it() -> None:
    made = queue(1)
    asks(made, "a", 0.0)
    assert made.fail("a", 0, 1.0)
    assert made.left == 0


def test_a_failure_waits_for_the_copy() -> None:
    made = queue(2)
    for name, number in (("a", 0), ("b", 1)):
        assert asks(made, name, 0.0) == [number]
    ends(made, "b", 0.1, 1, interval=0.1)
    assert asks(made, "b", 5.0) == [0]
    assert not made.fail("a", 0, 5.1)
    assert made.left == 1
    assert made.fail("b", 0, 5.2)


def test_the_slow_worker_gets_nothing_at_the_end() -> None:
    made = queue(30)
    for name in ("slow", "fast"):
        asks(made, name, 0.0)
    ends(made, "slow", 10.0, 0, interval=10.0)
    ends(made, "fast", 10.0, 1, interval=0.1)
    made.hear("fast", "device", 1, BytesAt.ALL, (), 10.0)
    assert asks(made, "slow", 10.0) == []
    assert len(asks(made, "fast", 10.0)) == 6


def test_one_copy_and_no_more() -> None:
    made = queue(3)
    for name in ("a", "b", "c"):
        asks(made, name, 0.0)
    ends(made, "b", 0.1, 1, interval=0.1)
    ends(made, "c", 0.1, 2, interval=0.1)
    assert asks(made, "b", 3.0) == [0]
    assert asks(made, "c", 3.0) == []
    ends(made, "b", 3.1, 0, interval=0.1)
    assert made.workers["a"].dropped == {0}


def test_a_worker_elsewhere_gets_what_is_stored_alone() -> None:
    made = queue(3, stored=False)
    assert asks(made, "pod", 0.0, has=BytesAt.STORED) == []
    assert [each.id for each in made.window.want(2)] == [0, 1]
    assert asks(made, "device", 0.0, has=BytesAt.LOCAL) == [2]
    made.window.add([SplitInput(0, "f0", "", 1, stored=True)])
    assert asks(made, "pod", 0.1, has=BytesAt.STORED) == [0]


def test_a_worker_that_comes_back_keeps_what_it_holds() -> None:
    made = queue(3)
    assert asks(made, "a", 0.0, 0, 1) == []
    assert made.outstanding == 2
    assert asks(made, "b", 0.0) == [2]


def test_a_policy_leaves_out_the_side_that_does_not_help() -> None:
    rules = SplitRules()
    made = queue(100_000, rule=TimedChunks(rules, only_if_it_helps=True))
    made.hear("device", "device", 1, BytesAt.ALL, (), 0.0)
    made.hear("pod", "pod", 1, BytesAt.ALL, (), 0.0)
    made.grant("device", 0.0)
    made.grant("pod", 0.0)
    ends(made, "device", 3.0, 0, interval=3.0)
    ends(made, "pod", 3.0, 1, interval=0.01)
    assert made.grant("device", 3.0) == []
    assert len(made.grant("pod", 3.0)) == 200


def test_a_site_that_is_not_asked_for_gets_nothing() -> None:
    made = queue(10, rule=TimedChunks(SplitRules(), ("pod",)))
    assert asks(made, "device", 0.0) == []


def test_the_one_with_the_bytes_goes_on_while_the_fast_one_waits_for_them() -> None:
    made = queue(30, stored=False)
    made.window.add([SplitInput(100, "f100", "", 1)])
    made.hear("pod", "pod", 1, BytesAt.STORED, (), 0.0)
    assert [each.input.id for each in made.grant("pod", 0.0)] == [100]
    ends(made, "pod", 0.01, 100, interval=0.01)
    assert asks(made, "device", 0.0, has=BytesAt.LOCAL) == [0]
    ends(made, "device", 1.0, 0)
    made.hear("pod", "pod", 1, BytesAt.STORED, (), 1.0)
    # Against workers that have the bytes as well it would get nothing: it needs a second for one.
    assert asks(made, "device", 1.0, has=BytesAt.LOCAL) == [1]


def test_bytes_that_only_a_slow_worker_has_are_missed_by_a_fast_one_at_the_end() -> None:
    made = queue(1, stored=False)
    assert asks(made, "slow", 0.0, has=BytesAt.LOCAL) == [0]
    made.hear("pod", "pod", 1, BytesAt.STORED, [], 0.2)
    assert [each.id for each in made.missing_bytes("pod", 0.2)] == [0]
    assert made.grant("pod", 0.2) == []
    made.has_come(0)
    assert made.missing_bytes("pod", 0.2) == []
    [lease] = made.grant("pod", 0.3)
    assert (lease.input.id, lease.copy, lease.input.stored) == (0, True, True)
    ends(made, "pod", 0.4, 0)
    assert made.workers["slow"].dropped == {0}


def test_no_bytes_are_missed_while_inputs_wait() -> None:
    made = queue(2, stored=False)
    asks(made, "slow", 0.0, has=BytesAt.LOCAL)
    made.hear("pod", "pod", 1, BytesAt.STORED, [], 0.2)
    assert made.missing_bytes("pod", 0.2) == []
