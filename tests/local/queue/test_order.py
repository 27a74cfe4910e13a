"""Priority, then turns between users, then arrival."""

import pytest

from fairlead.job import LocalJob
from fairlead.local.queue.order import start_order
from tests.local.queue.worlds import job, running

ANNA, BEN, ROOT = 1000, 1001, 0

ORDERS = {
    "arrival": ([job(2), job(1), job(3)], [], "1 2 3"),
    "own priority": ([job(1), job(2, priority=5), job(3, priority=-1)], [], "2 1 3"),
    "users take turns": (
        [job(1, user=ANNA), job(2, user=ANNA), job(3, user=ANNA), job(4, user=BEN), job(5, user=BEN)],
        [],
        "1 4 2 5 3",
    ),
    "a user who runs more goes later": (
        [job(1, user=ANNA), job(2, user=BEN)],
        [running(job(9, user=ANNA))],
        "2 1",
    ),
    "a priority does not pass other users": (
        [job(1, user=ANNA), job(2, user=BEN), job(3, user=BEN, priority=900)],
        [],
        "1 3 2",
    ),
    "root's priority passes all": (
        [job(1, user=ANNA, priority=900), job(2, user=ROOT, priority=1)],
        [],
        "2 1",
    ),
    "root without a priority takes turns": ([job(1, user=ANNA), job(2, user=ROOT)], [], "1 2"),
    "any user gives way": ([job(1, user=ANNA, priority=-1), job(2, user=BEN), job(3, user=BEN)], [], "2 3 1"),
}


@pytest.mark.parametrize(("queued", "active", "expected"), ORDERS.values(), ids=ORDERS)
def test_order(queued: list[LocalJob], active: list[LocalJob], expected: str) -> None:
    assert [each.id for each in start_order(queued, active)] == expected.split()
    assert [each.id for each in start_order(queued[::-1], active)] == expected.split()
