"""When a wait begins without sleep, and when it does not."""

import pytest

from fairlead.pipeline.awake import AWAKE, LENT, AwakeWait

LOOK = LENT / 10


class Machine:
    """A clock that moves with looks and sleeps; something is ready at a moment."""

    def __init__(self) -> None:
        self.now = 100.0
        self.ready = 0.0
        self.slept = 0
        self.lends = 0.0
        """Seconds for which another process takes the core when it is offered."""
        self.awake = AwakeWait(lambda: self.now, self.give_way)

    def give_way(self) -> None:
        self.now += self.lends

    def look(self, seconds: float | None) -> bool:
        self.now += LOOK
        if seconds != 0 and self.now < self.ready:
            self.slept += 1
            self.now = self.ready if seconds is None else min(self.ready, self.now + seconds)
        return self.now >= self.ready

    def wait(self, until_ready: float, seconds: float | None = None) -> bool:
        self.ready = self.now + until_ready
        return self.awake.wait(self.look, seconds)


def test_after_a_short_wait_the_next_one_begins_without_sleep() -> None:
    machine = Machine()
    assert machine.wait(AWAKE / 2)
    assert machine.slept == 1, "the first wait knows nothing of the rate"
    for _ in range(10):
        assert machine.wait(AWAKE / 2)
    assert machine.slept == 1


def test_a_wait_that_lasts_sleeps_and_so_does_the_next() -> None:
    machine = Machine()
    machine.wait(AWAKE / 2)
    begin = machine.now
    assert machine.wait(1.0)
    assert machine.slept == 2
    assert machine.now - begin == pytest.approx(1.0, abs=AWAKE)
    machine.wait(AWAKE / 2)
    assert machine.slept == 3


def test_a_core_that_another_process_wants_is_left_to_it() -> None:
    machine = Machine()
    machine.wait(AWAKE / 2)
    machine.lends = 2 * LENT
    sleeps = []
    for _ in range(200):
        before = machine.slept
        machine.wait(3 * LENT)
        sleeps.append(machine.slept - before)
    assert sum(sleeps) == 200, "each wait ends with a sleep: the wake-up hands the core over"
    machine.lends = 0.0
    before = machine.slept
    for _ in range(2000):
        machine.wait(3 * LENT)
    assert 0 < machine.slept - before < 1200, "later it tries again, and stays awake"


@pytest.mark.parametrize("seconds", [0.0, AWAKE / 4])
def test_a_wait_ends_in_time_and_says_that_nothing_came(seconds: float) -> None:
    machine = Machine()
    machine.wait(AWAKE / 2)
    begin = machine.now
    assert not machine.wait(1.0, seconds)
    assert machine.now - begin < seconds * 2 + 4 * LOOK
