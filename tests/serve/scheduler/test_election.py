"""One leads at a time; who is late stops by itself, and the next knows whether all was finished."""

import asyncio
from collections.abc import Awaitable, Callable

from fairlead.serve.scheduler.lead import Leader, Terms
from fairlead.serve.scheduler.roster import EVERYBODY

from fairlead.cluster.kinds import LEASES
from fairlead.cluster.memory import Memory

TERMS = Terms(duration=15.0, deadline=10.0, period=2.0)


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Stage:
    """Two replicas before one lease, each with a clock of its own."""

    def __init__(self) -> None:
        self.cluster = Memory()
        self.clocks = Clock(), Clock()
        self.floor = 0
        self.one, self.other = (
            Leader(self.cluster, name, TERMS, lambda: self.floor, clock)
            for name, clock in zip(("one", "other"), self.clocks, strict=True)
        )

    def pass_time(self, seconds: float) -> None:
        for clock in self.clocks:
            clock.now += seconds


def play(script: Callable[[Stage], Awaitable[None]]) -> None:
    async def scenario() -> None:
        stage = Stage()
        await stage.one.look()
        await stage.other.look()
        await script(stage)

    asyncio.run(scenario())


def test_the_first_leads_and_goes_on_while_it_renews() -> None:
    async def script(stage: Stage) -> None:
        for _ in range(20):
            stage.pass_time(2.0)
            await stage.one.look()
            await stage.other.look()
            assert stage.one.reign is not None
            assert stage.other.reign is None
        assert stage.one.reign is not None
        assert stage.one.reign.turn == 1

    play(script)


def test_who_cannot_renew_stops_before_another_begins_and_the_next_turn_is_not_clean() -> None:
    async def script(stage: Stage) -> None:
        stage.pass_time(10.0)
        assert stage.one.reign is None
        await stage.other.look()
        assert stage.other.reign is None
        stage.pass_time(5.0)
        await stage.other.look()
        assert stage.other.reign is not None
        assert (stage.other.reign.turn, stage.other.reign.clean) == (2, False)
        await stage.one.look()
        assert stage.one.reign is None

    play(script)


def test_the_times_in_the_lease_are_of_no_matter() -> None:
    async def script(stage: Stage) -> None:
        long_ago = {"spec": {"renewTime": "1970-01-01T00:00:00.000000Z"}}
        await stage.cluster.patch(LEASES, TERMS.name, long_ago, TERMS.namespace)
        await stage.other.look()
        stage.clocks[1].now += 14.0
        await stage.other.look()
        assert stage.other.reign is None
        stage.clocks[1].now += 1.0
        await stage.other.look()
        assert stage.other.reign is not None

    play(script)


def test_who_hands_over_lets_the_next_begin_at_once_and_cleanly() -> None:
    async def script(stage: Stage) -> None:
        await stage.one.resign(1)
        assert stage.one.reign is None
        await stage.other.look()
        assert stage.other.reign is not None
        assert (stage.other.reign.turn, stage.other.reign.clean) == (2, True)

    play(script)


def test_who_stops_in_the_middle_leaves_the_lease_to_run_out() -> None:
    async def script(stage: Stage) -> None:
        await stage.one.resign()
        await stage.other.look()
        assert stage.other.reign is None

    play(script)


def test_who_comes_too_late_begins_a_new_turn_even_where_nobody_took_the_lease() -> None:
    async def script(stage: Stage) -> None:
        stage.pass_time(11.0)
        await stage.one.look()
        assert stage.one.reign is not None
        assert (stage.one.reign.turn, stage.one.reign.clean) == (2, False)

    play(script)


def test_a_lease_that_somebody_deleted_is_made_anew_when_the_last_leader_must_have_noticed() -> None:
    async def script(stage: Stage) -> None:
        await stage.cluster.delete(LEASES, TERMS.name, TERMS.namespace)
        await stage.other.look()
        assert stage.other.reign is None, "the first leads and may not know yet"
        assert stage.one.reign is not None
        stage.floor = 7
        stage.pass_time(14.0)
        for each in (stage.one, stage.other):
            await each.look()
            assert each.reign is None
        stage.pass_time(1.0)
        await stage.other.look()
        assert stage.other.reign is not None
        reign = stage.other.reign
        assert (reign.turn, reign.clean, reign.left) == (8, False, EVERYBODY), "above all marks"

    play(script)


def test_where_somebody_was_placed_but_no_lease_is_there_a_newcomer_waits_too() -> None:
    async def scenario() -> None:
        clock = Clock()
        late = Leader(Memory(), "late", TERMS, clock=clock, began=lambda: True)
        await late.look()
        assert late.reign is None
        clock.now += 15.0
        await late.look()
        assert late.reign is not None

    asyncio.run(scenario())


def test_a_holder_that_somebody_else_took_out_has_not_handed_over() -> None:
    async def script(stage: Stage) -> None:
        await stage.cluster.patch(LEASES, TERMS.name, {"spec": {"holderIdentity": ""}}, TERMS.namespace)
        await stage.other.look()
        assert stage.other.reign is None
        stage.pass_time(15.0)
        await stage.other.look()
        assert stage.other.reign is not None
        assert not stage.other.reign.clean

    play(script)


def test_who_has_finished_one_turn_does_not_hand_over_another() -> None:
    async def script(stage: Stage) -> None:
        stage.pass_time(11.0)
        await stage.one.look()
        assert stage.one.leads(2)
        await stage.one.resign(1)
        lease = await stage.cluster.get(LEASES, TERMS.name, TERMS.namespace)
        assert lease.spec.holder_identity == "one"

    play(script)


def test_who_leads_and_sees_a_mark_above_its_turn_takes_a_new_one() -> None:
    async def script(stage: Stage) -> None:
        stage.floor = 5
        await stage.one.look()
        assert stage.one.reign is not None
        assert (stage.one.reign.turn, stage.one.reign.clean) == (6, False)

    play(script)
