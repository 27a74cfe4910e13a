"""The watchdog's rule, as a table: who holds what, and what follows."""

import pytest

from fairlead.limiter.overuse import GRACE, PAUSE, TOLERANCE, Overuse, find_overuse, unknown_processes
from fairlead.units import Bytes

GIB, MIB = 1 << 30, 1 << 20
LIMIT = Bytes(4 * GIB)
MINE = frozenset({10, 11})


@pytest.mark.parametrize(
    ("reading", "held"),
    [
        ({}, None),  # no driver listed anything, or the reading failed
        ({"gpu-0": {}}, None),
        ({"gpu-0": {10: LIMIT}}, None),
        ({"gpu-0": {10: LIMIT + TOLERANCE}}, None),
        ({"gpu-0": {10: LIMIT + TOLERANCE + 1}}, ("gpu-0", LIMIT + TOLERANCE + 1)),
        ({"gpu-0": {10: 3 * GIB, 11: 2 * GIB}}, ("gpu-0", 5 * GIB)),  # its processes together
        ({"gpu-0": {10: 3 * GIB, 12: 90 * GIB}}, None),  # a neighbour
        ({"gpu-0": {12: 90 * GIB}}, None),
        ({"gpu-0": {10: 3 * GIB}, "gpu-1": {10: 3 * GIB}}, None),  # the limit is of each accelerator
        ({"gpu-0": {10: 5 * GIB}, "gpu-1": {10: 6 * GIB}}, ("gpu-1", 6 * GIB)),
    ],
)
def test_a_job_exceeds_its_limit(
    reading: dict[str, dict[int, Bytes]], held: tuple[str, Bytes] | None
) -> None:
    expected = None if held is None else Overuse(*held, LIMIT)
    assert find_overuse(LIMIT, reading, MINE) == expected
    if expected:
        assert unknown_processes(LIMIT, reading, ()) & MINE, "it would not be looked up"


def test_processes_are_looked_up_only_where_they_could_matter() -> None:
    reading = {"gpu-0": {10: Bytes(3 * GIB), 12: Bytes(2 * GIB)}, "gpu-1": {13: Bytes(GIB)}}
    assert unknown_processes(LIMIT, reading, ()) == {10, 12}
    assert unknown_processes(LIMIT, reading, {12}) == frozenset()
    assert unknown_processes(Bytes(6 * GIB), reading, ()) == frozenset()


@pytest.mark.parametrize(
    ("held", "limit", "words"),
    [
        (round(4.6 * GIB), 4 * GIB, "held 4.6 GiB of gpu-0: its limit is 4 GiB"),
        (4 * GIB + 33 * MIB, 4 * GIB, "held 4.04 GiB of gpu-0: its limit is 4 GiB"),
        (700 * MIB, 512 * MIB, "held 700 MiB of gpu-0: its limit is 512 MiB"),
    ],
)
def test_the_reason_says_what_to_do_next(held: int, limit: int, words: str) -> None:
    reason = Overuse("gpu-0", Bytes(held), Bytes(limit)).reason
    assert reason == f"{words}; state a larger --gpu-mem, or --limiter none"


def test_an_offender_has_ended_within_a_second() -> None:
    assert PAUSE + GRACE < 0.75  # the rest is for the driver and the kernel
