"""Only pods in the in-flight set are given devices, and a leader that takes over looks at no others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.cluster.kinds import LEASES
from fairlead.cluster.meta import Metadata
from fairlead.errors import ConflictError, NotFoundError
from fairlead.serve.machine.clock import MachineClock
from fairlead.serve.machine.flow import Flows
from fairlead.serve.scheduler.bind.requests import gather
from fairlead.serve.scheduler.leader.election import LeaderElection
from fairlead.serve.scheduler.leader.in_flight import ANNOTATION, EVERYTHING, MOST, InFlightSet, choose, parse
from fairlead.settings.scheduler import LeaderElectionConfig
from tests.serve.scheduler.flows import Wire, run

UNTIL = "2026-01-01T01:00:00Z"
NEVER = "2026-01-01T02:00:00Z"


def born(second: int, uid: str = "") -> Metadata:
    minutes, seconds = divmod(second, 60)
    return Metadata(uid=uid or f"u{second}", creation_timestamp=f"2026-01-01T00:{minutes:02}:{seconds:02}Z")


def test_while_few_pods_wait_every_pod_of_today_is_in_it_and_none_of_tomorrow() -> None:
    found = choose([born(1), born(2)], ["busy"], [], UNTIL)
    assert all(found.covers(each) for each in (born(1), born(3000), Metadata(uid="busy")))
    assert not found.covers(Metadata(uid="x", creation_timestamp=NEVER))


@given(st.lists(st.integers(0, 3599), min_size=MOST + 1, max_size=3 * MOST))
def test_where_many_pods_wait_a_bounded_number_is_in_it(seconds: list[int]) -> None:
    waiting = [born(second, f"u{number}") for number, second in enumerate(seconds)]
    line = [each.uid for each in waiting[:MOST]]
    found = choose(waiting, ["busy"], line, UNTIL)
    assert found.covers(Metadata(uid="busy", creation_timestamp=NEVER))
    assert all(found.covers(each) for each in waiting[:MOST])
    assert sum(found.covers(each) for each in waiting) <= 2 * MOST


@given(st.text(max_size=20), st.text(max_size=20), st.frozensets(st.text(max_size=9)))
def test_what_is_written_is_read_again(since: str, until: str, uids: frozenset[str]) -> None:
    found = InFlightSet(since, until, uids)
    assert parse(found.text()) == found


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "{}", '{"since": "", "until": ""}', "[" * 5000])
def test_where_nothing_can_be_read_any_pod_may_be_in_flight(text: str) -> None:
    assert parse(text) == EVERYTHING
    assert EVERYTHING.covers(born(0))


def test_a_set_that_another_client_wrote_is_not_believed() -> None:
    text = InFlightSet(UNTIL, NEVER, frozenset({"u1", "u2"})).text()
    assert parse(text.replace(',"u2"', "")) == EVERYTHING
    assert parse(f" {text}") == EVERYTHING


CONFIG = LeaderElectionConfig(duration=15.0, deadline=10.0)


def test_only_the_leader_can_add_to_it_and_the_next_reads_the_last_one() -> None:
    wire, flows, clock = Wire(), Flows(), MachineClock()
    one, other = (LeaderElection(flows, clock, name, CONFIG) for name in ("one", "other"))
    run(one.try_acquire_or_renew(), wire.perform, flows)
    run(other.try_acquire_or_renew(), wire.perform, flows)
    assert not one.covers([born(1)]), "what the previous leader left is not ended yet"
    wanted = {"now": InFlightSet(uids=frozenset({"u1"}))}
    run(one.publish_in_flight(1, lambda: wanted["now"]), wire.perform, flows)
    assert one.covers([born(1)])
    wanted["now"] = InFlightSet(uids=frozenset({"u1", "u2"}))
    run(one.extend(1, [born(2)]), wire.perform, flows)
    assert one.covers([born(1), born(2)])

    run(other.try_acquire_or_renew(), wire.perform, flows)
    clock.now += 16.0
    run(other.try_acquire_or_renew(), wire.perform, flows)
    assert other.term is not None
    assert other.term.previous_in_flight == wanted["now"]
    for late in (1, 3):  # also for a pod that is in the set that it wrote
        with pytest.raises(ConflictError):
            run(one.extend(1, [born(late)]), wire.perform, flows)
    notes = wire.api.found(LEASES.plural, CONFIG.name)["metadata"]["annotations"]
    assert parse(notes[ANNOTATION]) == wanted["now"], "it stays until all is ended"


def test_flows_that_want_to_be_in_the_set_at_the_same_time_share_one_write() -> None:
    wire, flows, clock = Wire(), Flows(), MachineClock()
    one = LeaderElection(flows, clock, "one", CONFIG)
    run(one.try_acquire_or_renew(), wire.perform, flows)
    busy: list[str] = []
    run(one.publish_in_flight(1, lambda: InFlightSet(uids=frozenset(busy))), wire.perform, flows)
    before = len(wire.requests)
    busy += ["u1", "u2", "u3"]
    run(gather([one.extend(1, [born(each)]) for each in (1, 2, 3)]), wire.perform, flows)
    assert one.covers([born(1), born(2), born(3)])
    assert len(wire.requests) == before + 1


def test_a_pod_that_is_in_one_of_two_sets_whose_writes_have_no_answer_is_not_covered() -> None:
    wire, flows = Wire(), Flows()
    one = LeaderElection(flows, MachineClock(), "one", CONFIG)
    run(one.try_acquire_or_renew(), wire.perform, flows)
    wanted = [InFlightSet(uids=frozenset({"u1"}))]
    run(one.publish_in_flight(1, lambda: wanted[-1]), wire.perform, flows)
    wanted.append(InFlightSet(uids=frozenset({"u2"})))
    wire.api.delete(LEASES.plural, CONFIG.name)
    with pytest.raises(NotFoundError):
        run(one.extend(1, [born(2)]), wire.perform, flows)
    assert not one.covers([born(1)])
    assert not one.covers([born(2)])
