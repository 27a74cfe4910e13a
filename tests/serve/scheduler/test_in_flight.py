"""Nobody is given anything who is not on the roster, and a leader that takes over looks at nobody else."""

import asyncio

import pytest
from fairlead.serve.scheduler.lead import Leader, Terms
from fairlead.serve.scheduler.roster import ANNOTATION, EVERYBODY, MOST, Roster, choose, parse
from hypothesis import given
from hypothesis import strategies as st

from fairlead.cluster.kinds import LEASES
from fairlead.cluster.memory import Memory
from fairlead.cluster.meta import Metadata
from fairlead.errors import ConflictError, NotFoundError

UNTIL = "2026-01-01T01:00:00Z"
NEVER = "2026-01-01T02:00:00Z"


def born(second: int, uid: str = "") -> Metadata:
    minutes, seconds = divmod(second, 60)
    return Metadata(uid=uid or f"u{second}", creation_timestamp=f"2026-01-01T00:{minutes:02}:{seconds:02}Z")


def test_while_few_wait_everybody_of_today_is_on_it_and_nobody_of_tomorrow() -> None:
    roster = choose([born(1), born(2)], ["busy"], [], UNTIL)
    assert all(roster.covers(each) for each in (born(1), born(3000), Metadata(uid="busy")))
    assert not roster.covers(Metadata(uid="x", creation_timestamp=NEVER))


@given(st.lists(st.integers(0, 3599), min_size=MOST + 1, max_size=3 * MOST))
def test_where_many_wait_no_more_than_so_many_are_on_it(seconds: list[int]) -> None:
    waiting = [born(second, f"u{number}") for number, second in enumerate(seconds)]
    line = [each.uid for each in waiting[:MOST]]
    roster = choose(waiting, ["busy"], line, UNTIL)
    assert roster.covers(Metadata(uid="busy", creation_timestamp=NEVER))
    assert all(roster.covers(each) for each in waiting[:MOST])
    assert sum(roster.covers(each) for each in waiting) <= 2 * MOST


@given(st.text(max_size=20), st.text(max_size=20), st.frozensets(st.text(max_size=9)))
def test_what_is_written_is_read_again(since: str, until: str, uids: frozenset[str]) -> None:
    roster = Roster(since, until, uids)
    assert parse(roster.text()) == roster


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "{}", '{"since": "", "until": ""}', "[" * 5000])
def test_where_nothing_can_be_read_it_may_have_been_anybody(text: str) -> None:
    assert parse(text) == EVERYBODY
    assert EVERYBODY.covers(born(0))


def test_what_somebody_else_wrote_there_is_not_believed() -> None:
    text = Roster(UNTIL, NEVER, frozenset({"u1", "u2"})).text()
    assert parse(text.replace(',"u2"', "")) == EVERYBODY
    assert parse(f" {text}") == EVERYBODY


def test_only_who_leads_can_add_to_it_and_the_next_reads_the_last_one() -> None:
    async def scenario() -> None:
        cluster, now = Memory(), [0.0]
        terms = Terms(duration=15.0, deadline=10.0)
        one, other = (Leader(cluster, name, terms, clock=lambda: now[0]) for name in ("one", "other"))
        await one.look()
        await other.look()
        assert not one.covers([born(1)]), "what the leader before left is not ended yet"
        listed = {"now": Roster(uids=frozenset({"u1"}))}
        await one.enrol(1, lambda: listed["now"])
        assert one.covers([born(1)])
        listed["now"] = Roster(uids=frozenset({"u1", "u2"}))
        await one.extend(1, [born(2)])
        assert one.covers([born(1), born(2)])

        await other.look()
        now[0] += 16.0
        await other.look()
        assert other.reign is not None
        assert other.reign.left == listed["now"]
        for late in (1, 3):  # also for one who is on the roster that it wrote
            with pytest.raises(ConflictError):
                await one.extend(1, [born(late)])
        lease = await cluster.get(LEASES, terms.name, terms.namespace)
        assert parse(lease.metadata.annotations[ANNOTATION]) == listed["now"], "it stays until all is ended"

    asyncio.run(scenario())


def test_who_is_on_it_by_one_of_two_writes_whose_fate_is_unknown_is_not() -> None:
    async def scenario() -> None:
        cluster = Memory()
        one = Leader(cluster, "one", Terms(), clock=lambda: 0.0)
        await one.look()
        listed = [Roster(uids=frozenset({"u1"}))]
        await one.enrol(1, lambda: listed[-1])
        listed.append(Roster(uids=frozenset({"u2"})))
        await cluster.delete(LEASES, "fairlead-scheduler", "kube-system")
        with pytest.raises(NotFoundError):
            await one.extend(1, [born(2)])
        assert not one.covers([born(1)])
        assert not one.covers([born(2)])

    asyncio.run(scenario())
