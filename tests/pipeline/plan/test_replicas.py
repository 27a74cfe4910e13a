"""How many replicas pay: a table of machines."""

import pytest

from fairlead.pipeline.plan.replicas import StageTime, choose_replicas, replica_sentence


def times(*milliseconds: float, fixed: str = "") -> list[StageTime]:
    """Return stages a, b, c and so on; those in `fixed` may not repeat."""
    return [
        StageTime(name, each / 1000, name not in fixed)
        for name, each in zip("abcde", milliseconds, strict=False)
    ]


@pytest.mark.parametrize(
    ("stages", "cores", "stage", "replicas", "milliseconds"),
    [
        # The work of both processes and two hops of 0.4 ms, on two cores: (1 + 40 + 1 + 0.8) / 2.
        (times(1, 40, 1), 2, "b", 2, 21.4),
        # More cores than the others let it use: a takes 10 ms and half a hop, and b needs four to keep up.
        (times(10, 40, 1), 8, "b", 4, 10.2),
        # A stage at the end has one hop.
        (times(1, 40), 4, "b", 4, 10.35),
        # One core gains nothing, and neither do hops that cost more than the work.
        (times(1, 40, 1), 1, "", 1, 42),
        (times(0.1, 0.4, 0.1), 2, "", 1, 0.6),
        # The slowest keeps state: the next one is tried.
        (times(1, 40, 30, fixed="b"), 2, "c", 2, 41.2),
        (times(1, 40, fixed="ab"), 2, "", 1, 41),
        (times(), 2, "", 1, 0),
    ],
)
def test_the_smallest_number_with_the_smallest_period(
    stages: list[StageTime], cores: int, stage: str, replicas: int, milliseconds: float
) -> None:
    choice = choose_replicas(stages, cores)
    assert (choice.stage, choice.replicas) == (stage, replicas)
    assert choice.period_s * 1000 == pytest.approx(milliseconds)
    assert choice.one_process_s == pytest.approx(sum(each.seconds for each in stages))


def test_a_dear_hop_is_not_worth_it() -> None:
    assert choose_replicas(times(1, 40, 1), 2, hop_s=0.0075).stage == ""
    assert choose_replicas(times(1, 40, 1), 2, hop_s=0.0065).stage == "b"


def test_replicas_that_busy_cores_make_slower_are_not_proposed() -> None:
    # A fast kernel: 1.19 ms in all, and two hops of 0.4 ms: 1.2x, and 0.7x to 1.1x when it runs.
    choice = choose_replicas(times(0.14, 0.62, 0.43, fixed="ac"), 2)
    assert (choice.stage, choice.replicas, choice.doubtful) == ("", 1, "b")
    assert choice.period_s == choice.one_process_s
    assert replica_sentence(choice, 2) == (
        "Replicas: none; those of b would be 1.2x as fast as one process if a hop takes 0.4 ms of CPU, "
        "and slower if it takes 1.2 ms, as between busy cores."
    )


def test_people_read_what_replicas_do() -> None:
    assert replica_sentence(choose_replicas(times(1, 40, 1), 2), 2) == (
        "Replicas: 2 of b on 2 cores would have a period of 21.4 ms, 1.96x as fast as one process."
    )
    assert replica_sentence(choose_replicas(times(1, 2), 1), 1) == "Replicas: none; the machine has one core."
    small = choose_replicas(times(0.1, 0.1), 2)
    assert "gains less than its hops take (0.4 ms of CPU)" in replica_sentence(small, 2)
