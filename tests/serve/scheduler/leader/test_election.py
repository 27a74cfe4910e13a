"""One replica leads at a time; a late leader stops by itself; the next one knows whether it had finished."""

import pytest

from fairlead.cache.leader_marks import LeaderMarks
from fairlead.cluster.kinds import LEASES
from fairlead.errors import ClusterError, ClusterUnavailableError, ConflictError
from fairlead.serve.leader.election import RenewLease
from fairlead.serve.machine.clock import MachineClock
from fairlead.serve.machine.flow import Answered, Flow, Flows, Sleep
from fairlead.serve.machine.requests import Get
from fairlead.serve.scheduler.leader.election import SchedulerElection
from fairlead.serve.scheduler.leader.in_flight import EVERYTHING
from fairlead.settings.leader import LeaderElectionConfig
from tests.serve.scheduler.flows import Wire, run

CONFIG = LeaderElectionConfig(duration=15.0, deadline=10.0, period=2.0)
LEASE = LEASES.path(CONFIG.namespace, CONFIG.name)


class Candidate:
    """A replica that wants to lead, with a clock of its own."""

    def __init__(self, wire: Wire, name: str, marks: LeaderMarks, *, has_bound_pods: bool = False) -> None:
        self.clock = MachineClock(now=100.0)
        self.flows = Flows()
        self._wire = wire
        self.election = SchedulerElection(self.flows, self.clock, name, CONFIG, marks, lambda: has_bound_pods)

    def run(self, flow: Flow[None]) -> None:
        """Run a flow of the election to its end."""
        run(flow, self._wire.perform, self.flows)

    def try_acquire_or_renew(self) -> None:
        """Read the Lease once, and acquire or renew it."""
        self.run(self.election.try_acquire_or_renew())

    @property
    def leads(self) -> bool:
        return self.election.term is not None

    @property
    def epoch(self) -> tuple[int, bool]:
        """The epoch of its term, and whether the previous leader had finished."""
        assert self.election.term is not None
        return self.election.term.epoch, self.election.term.clean


class Stage:
    """Two replicas before one Lease, of which the first leads."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.marks = LeaderMarks()
        self.one, self.other = (Candidate(self.wire, name, self.marks) for name in ("one", "other"))
        self.one.try_acquire_or_renew()
        self.other.try_acquire_or_renew()

    def pass_time(self, seconds: float) -> None:
        for each in (self.one, self.other):
            each.clock.now += seconds

    def patch(self, body: bytes) -> None:
        """Change the Lease as any client may."""
        self.wire.api.request("PATCH", LEASE, body, "merge")

    @property
    def holder(self) -> str:
        return str(self.wire.api.get(LEASES.plural, CONFIG.name)["spec"]["holderIdentity"])


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_the_first_replica_leads_while_it_renews(stage: Stage) -> None:
    for _ in range(20):
        stage.pass_time(2.0)
        stage.one.try_acquire_or_renew()
        stage.other.try_acquire_or_renew()
        assert stage.one.leads
        assert not stage.other.leads
    assert stage.one.epoch == (1, False)


def test_a_leader_that_cannot_renew_stops_before_another_begins_and_the_next_term_is_not_clean(
    stage: Stage,
) -> None:
    stage.pass_time(10.0)
    assert not stage.one.leads
    stage.other.try_acquire_or_renew()
    assert not stage.other.leads
    stage.pass_time(5.0)
    stage.other.try_acquire_or_renew()
    assert stage.other.epoch == (2, False)
    stage.one.try_acquire_or_renew()
    assert not stage.one.leads


def test_the_times_in_the_lease_decide_nothing(stage: Stage) -> None:
    stage.patch(b'{"spec": {"renewTime": "1970-01-01T00:00:00.000000Z"}}')
    stage.other.try_acquire_or_renew()
    stage.other.clock.now += 14.0
    stage.other.try_acquire_or_renew()
    assert not stage.other.leads
    stage.other.clock.now += 1.0
    stage.other.try_acquire_or_renew()
    assert stage.other.leads


def test_a_leader_that_resigns_lets_the_next_begin_at_once_and_cleanly(stage: Stage) -> None:
    stage.one.run(stage.one.election.resign(1))
    assert not stage.one.leads
    stage.other.try_acquire_or_renew()
    assert stage.other.epoch == (2, True)


def test_a_replica_that_resigned_does_not_acquire_the_lease(stage: Stage) -> None:
    stage.one.run(stage.one.election.resign(1))
    sent = len(stage.wire.requests)
    stage.one.try_acquire_or_renew()
    assert len(stage.wire.requests) == sent
    assert not stage.one.leads


def test_a_leader_that_stops_in_the_middle_leaves_the_lease_to_run_out(stage: Stage) -> None:
    stage.one.run(stage.one.election.resign())
    stage.other.try_acquire_or_renew()
    assert not stage.other.leads
    assert stage.holder == "one"


def test_a_leader_that_is_too_late_begins_a_new_term_even_where_no_other_took_the_lease(
    stage: Stage,
) -> None:
    stage.pass_time(11.0)
    stage.one.try_acquire_or_renew()
    assert stage.one.epoch == (2, False)


def test_a_deleted_lease_is_created_again_when_the_last_leader_must_have_stopped(stage: Stage) -> None:
    stage.wire.api.delete(LEASES.plural, CONFIG.name)
    stage.other.try_acquire_or_renew()
    assert not stage.other.leads, "the first replica leads and may not know yet"
    assert stage.one.leads
    stage.marks.epoch = 7
    stage.pass_time(14.0)
    for each in (stage.one, stage.other):
        each.try_acquire_or_renew()
        assert not each.leads
    stage.pass_time(1.0)
    stage.other.try_acquire_or_renew()
    assert stage.other.epoch == (8, False), "above all marks"
    assert stage.other.election.term is not None
    assert stage.other.election.term.previous_in_flight == EVERYTHING


def test_a_new_replica_waits_where_pods_are_bound_and_no_lease_exists() -> None:
    late = Candidate(Wire(), "late", LeaderMarks(), has_bound_pods=True)
    late.try_acquire_or_renew()
    assert not late.leads
    late.clock.now += 15.0
    late.try_acquire_or_renew()
    assert late.leads


def test_a_holder_that_another_client_removed_has_not_resigned(stage: Stage) -> None:
    stage.patch(b'{"spec": {"holderIdentity": ""}}')
    stage.other.try_acquire_or_renew()
    assert not stage.other.leads
    stage.pass_time(15.0)
    stage.other.try_acquire_or_renew()
    assert stage.other.epoch == (2, False)


def test_a_leader_that_has_finished_one_term_does_not_resign_from_another(stage: Stage) -> None:
    stage.pass_time(11.0)
    stage.one.try_acquire_or_renew()
    assert stage.one.election.leads(2)
    stage.one.run(stage.one.election.resign(1))
    assert stage.holder == "one"


def test_a_leader_that_sees_a_mark_above_its_epoch_begins_a_new_term(stage: Stage) -> None:
    stage.marks.epoch = 5
    stage.one.try_acquire_or_renew()
    assert stage.one.epoch == (6, False)


def test_a_term_lasts_from_when_its_renewal_was_sent_not_from_when_it_was_answered(stage: Stage) -> None:
    one = stage.one
    one.flows.start(one.election.try_acquire_or_renew())
    (renewal,) = one.flows.take()
    assert isinstance(renewal, RenewLease)
    answer = stage.wire.perform(renewal)
    stage.pass_time(4.0)
    one.flows.resume(Answered(renewal.id, answer))
    stage.pass_time(5.9)
    assert one.leads
    stage.pass_time(0.1)
    assert not one.leads


def test_requests_for_the_lease_time_out_early_enough_for_another_one() -> None:
    sent: list[tuple[type, float | None]] = []
    late = Candidate(Wire(), "late", LeaderMarks())

    def perform(effect: object) -> object:
        assert isinstance(effect, Get | RenewLease)
        sent.append((type(effect), effect.within))
        return wire.perform(effect)

    wire = Wire()
    for _ in range(2):
        run(late.election.try_acquire_or_renew(), perform, late.flows)
    assert sent == [(Get, 5.0), (RenewLease, 5.0), (RenewLease, 5.0)]


def test_an_election_goes_on_after_an_error_and_keeps_its_text() -> None:
    wire, flows, clock = Wire(), Flows(), MachineClock()
    election = SchedulerElection(flows, clock, "one", CONFIG)
    flows.start(election.run())
    (read,) = flows.take()
    flows.resume(Answered(read.id, error=ClusterUnavailableError("no route")))
    assert election.last_error == "no route"
    (pause,) = flows.take()
    assert isinstance(pause, Sleep)
    assert pause.seconds == CONFIG.period
    flows.resume(Answered(pause.id))
    for _ in range(2):
        (effect,) = flows.take()
        try:
            flows.resume(Answered(effect.id, wire.perform(effect)))
        except ClusterError as error:
            flows.resume(Answered(effect.id, error=error))
    assert election.last_error == ""
    assert election.leads(1)


def test_a_renewal_that_conflicts_ends_the_term_and_the_lease_is_read_at_once(stage: Stage) -> None:
    stage.patch(b'{"metadata": {"labels": {"x": "y"}}}')
    stage.one.try_acquire_or_renew()
    assert stage.one.epoch == (2, False), "another client may have led meanwhile"


def test_the_in_flight_set_is_only_written_by_the_leader_of_that_term(stage: Stage) -> None:
    with pytest.raises(ConflictError, match="another replica leads now"):
        stage.other.run(stage.other.election.publish_in_flight(1, lambda: EVERYTHING))
    with pytest.raises(ConflictError, match="another replica leads now"):
        stage.one.run(stage.one.election.publish_in_flight(2, lambda: EVERYTHING))


NEWER = "a newer leader has written the format placement/2"


def test_a_replica_that_cannot_read_a_format_of_the_lease_does_not_lead_and_says_why(stage: Stage) -> None:
    stage.patch(b'{"metadata": {"annotations": {"fairlead.dev/formats": "in-flight/1 placement/2"}}}')
    stage.other.try_acquire_or_renew()
    assert not stage.other.election.barred, "another replica holds the Lease"
    stage.pass_time(15.0)
    for each in (stage.one, stage.other):
        each.try_acquire_or_renew()
        assert not each.leads
        assert each.election.barred.startswith(NEWER)


def test_a_replica_that_reads_the_formats_again_leads(stage: Stage) -> None:
    stage.patch(b'{"metadata": {"annotations": {"fairlead.dev/formats": "placement/2"}}}')
    stage.other.try_acquire_or_renew()
    stage.pass_time(15.0)
    stage.other.try_acquire_or_renew()
    assert stage.other.election.barred
    stage.patch(b'{"metadata": {"annotations": {"fairlead.dev/formats": null}}}')
    stage.other.try_acquire_or_renew()
    stage.pass_time(15.0)
    stage.other.try_acquire_or_renew()
    assert (stage.other.leads, stage.other.election.barred) == (True, "")


def test_an_in_flight_set_of_a_newer_format_bars_a_replica_also_where_the_lease_names_no_formats(
    stage: Stage,
) -> None:
    note = b'{"fairlead.dev/formats": null, "fairlead.dev/in-flight": "{\\"version\\":2}"}'
    stage.patch(b'{"metadata": {"annotations": %s}}' % note)
    stage.other.try_acquire_or_renew()
    stage.pass_time(15.0)
    stage.other.try_acquire_or_renew()
    assert not stage.other.leads
    assert stage.other.election.barred.startswith("in-flight format 2")


def test_a_leader_that_sees_a_mark_of_a_newer_format_leads_no_more(stage: Stage) -> None:
    stage.marks.newer = "pod default/a: leader-epoch format 2"
    stage.one.try_acquire_or_renew()
    stage.pass_time(15.0)
    stage.one.try_acquire_or_renew()
    assert not stage.one.leads
    assert stage.one.election.barred == stage.marks.newer
    assert stage.holder == "one", "the Lease runs out"
