"""A leader allocates devices only to pods in the in-flight set; the next leader fences no other pods."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.cluster.kinds import LEASES
from fairlead.cluster.meta import Metadata
from fairlead.errors import ConflictError, NotFoundError
from fairlead.serve.machine.clock import MachineClock
from fairlead.serve.machine.flow import Flows
from fairlead.serve.scheduler.bind.requests import gather
from fairlead.serve.scheduler.leader.election import SchedulerElection
from fairlead.serve.scheduler.leader.in_flight import ANNOTATION, EVERYTHING, MOST, InFlightSet, choose, parse
from fairlead.settings.leader import LeaderElectionConfig
from tests.serve.scheduler.flows import Wire, run

UNTIL = "2026-01-01T01:00:00Z"
NEVER = "2026-01-01T02:00:00Z"


def born(second: int, uid: str = "") -> Metadata:
    minutes, seconds = divmod(second, 60)
    return Metadata(uid=uid or f"u{second}", creation_timestamp=f"2026-01-01T00:{minutes:02}:{seconds:02}Z")


def test_where_few_pods_are_pending_the_set_covers_all_that_are_created_before_its_end() -> None:
    in_flight = choose([born(1), born(2)], ["busy"], [], UNTIL)
    assert all(in_flight.covers(pod) for pod in (born(1), born(3000), Metadata(uid="busy")))
    assert not in_flight.covers(Metadata(uid="x", creation_timestamp=NEVER))


@given(st.lists(st.integers(0, 3599), min_size=MOST + 1, max_size=3 * MOST))
def test_where_many_pods_are_pending_the_set_covers_a_bounded_number(seconds: list[int]) -> None:
    pending = [born(second, f"u{number}") for number, second in enumerate(seconds)]
    queued = [pod.uid for pod in pending[:MOST]]
    in_flight = choose(pending, ["busy"], queued, UNTIL)
    assert in_flight.covers(Metadata(uid="busy", creation_timestamp=NEVER))
    assert all(in_flight.covers(pod) for pod in pending[:MOST])
    assert sum(in_flight.covers(pod) for pod in pending) <= 2 * MOST


@given(st.text(max_size=20), st.text(max_size=20), st.frozensets(st.text(max_size=9)))
def test_a_set_is_read_as_it_was_written(since: str, until: str, uids: frozenset[str]) -> None:
    in_flight = InFlightSet(since, until, uids)
    assert parse(in_flight.text()) == in_flight


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "{}", '{"since": "", "until": ""}', "[" * 5000])
def test_where_the_set_cannot_be_read_any_pod_may_be_in_flight(text: str) -> None:
    assert parse(text) == EVERYTHING
    assert EVERYTHING.covers(born(0))


def test_a_set_that_another_client_changed_counts_as_every_pod() -> None:
    text = InFlightSet(UNTIL, NEVER, frozenset({"u1", "u2"})).text()
    assert parse(text.replace(',"u2"', "")) == EVERYTHING
    assert parse(f" {text}") == EVERYTHING


CONFIG = LeaderElectionConfig(duration=15.0, deadline=10.0)


def test_only_the_leader_can_extend_the_set_and_the_next_leader_reads_the_last_one() -> None:
    wire, flows, clock = Wire(), Flows(), MachineClock()
    one, other = (SchedulerElection(flows, clock, name, CONFIG) for name in ("one", "other"))
    run(one.try_acquire_or_renew(), wire.perform, flows)
    run(other.try_acquire_or_renew(), wire.perform, flows)
    assert not one.covers([born(1)]), "the previous leader's set is not fenced yet"
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
    notes = wire.api.get(LEASES.plural, CONFIG.name)["metadata"]["annotations"]
    assert parse(notes[ANNOTATION]) == wanted["now"], "it stays until everything is fenced"


def test_flows_that_extend_the_set_at_the_same_time_share_one_write() -> None:
    wire, flows, clock = Wire(), Flows(), MachineClock()
    one = SchedulerElection(flows, clock, "one", CONFIG)
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
    one = SchedulerElection(flows, MachineClock(), "one", CONFIG)
    run(one.try_acquire_or_renew(), wire.perform, flows)
    wanted = [InFlightSet(uids=frozenset({"u1"}))]
    run(one.publish_in_flight(1, lambda: wanted[-1]), wire.perform, flows)
    wanted.append(InFlightSet(uids=frozenset({"u2"})))
    wire.api.delete(LEASES.plural, CONFIG.name)
    with pytest.raises(NotFoundError):
        run(one.extend(1, [born(2)]), wire.perform, flows)
    assert not one.covers([born(1)])
    assert not one.covers([born(2)])
