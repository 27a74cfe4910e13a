"""A pod is in the in-flight set while its devices are allocated or deallocated."""

from datetime import datetime

import pytest
from msgspec.structs import replace

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.types import LivePod
from fairlead.catalog import Catalog
from fairlead.cluster.kinds import LEASES
from fairlead.compat.times import UTC
from fairlead.errors import ConflictError
from fairlead.serve.machine.clock import MachineClock
from fairlead.serve.machine.flow import Flow, Flows
from fairlead.serve.scheduler.cycle.queue import SchedulingQueue
from fairlead.serve.scheduler.leader.election import SchedulerElection
from fairlead.serve.scheduler.leader.in_flight import ANNOTATION, InFlightSet, parse
from fairlead.serve.scheduler.leader.tracker import InFlightTracker
from fairlead.settings.leader import LeaderElectionConfig
from tests.serve.scheduler.flows import Wire, run
from tests.serve.scheduler.objects import pod

CONFIG = LeaderElectionConfig()


class Leader:
    """A replica that leads, with a wall clock years behind: the set covers no pod by its age."""

    def __init__(self, catalog: Catalog) -> None:
        self.wire, self.flows, clock = Wire(), Flows(), MachineClock()
        clock.set_wall(datetime(1999, 1, 1, tzinfo=UTC).timestamp())
        self.election = SchedulerElection(self.flows, clock, "one", CONFIG)
        self.tracker = InFlightTracker(self.election, SchedulerCache(catalog), SchedulingQueue(), clock)
        self.run(self.election.try_acquire_or_renew())
        self.run(self.tracker.begin_term(1))

    def run(self, flow: Flow[None]) -> None:
        run(flow, self.wire.perform, self.flows)

    def written(self) -> InFlightSet:
        lease = self.wire.api.get(LEASES.plural, CONFIG.name)
        return parse(lease["metadata"]["annotations"].get(ANNOTATION, ""))


def late_pod() -> LivePod:
    late = pod("late")
    return replace(late, metadata=replace(late.metadata, creation_timestamp="2026-01-01T00:00:00Z"))


def test_a_pod_that_the_set_does_not_cover_by_age_is_in_it_by_uid_during_its_flow(catalog: Catalog) -> None:
    leader, late = Leader(catalog), late_pod()
    covered: list[bool] = []

    def work() -> Flow[None]:
        covered.append(leader.written().covers(late.metadata))
        yield from ()

    assert not leader.written().covers(late.metadata)
    leader.run(leader.tracker.track([late], 1, work()))
    assert covered == [True]
    leader.run(leader.election.try_acquire_or_renew())
    assert not leader.written().covers(late.metadata)


def test_a_pod_is_in_the_set_until_the_last_of_its_flows_ends(catalog: Catalog) -> None:
    leader, late = Leader(catalog), late_pod()
    covered: list[bool] = []

    def work() -> Flow[None]:
        yield from leader.tracker.track([late], 1, nothing())
        yield from leader.election.try_acquire_or_renew()
        covered.append(leader.written().covers(late.metadata))

    def nothing() -> Flow[None]:
        yield from ()

    leader.run(leader.tracker.track([late], 1, work()))
    assert covered == [True]


def test_where_the_set_cannot_be_written_the_flow_does_not_run_and_the_pod_leaves_the_set(
    catalog: Catalog,
) -> None:
    leader, late = Leader(catalog), late_pod()
    done: list[str] = []

    def work() -> Flow[None]:
        done.append("work")
        yield from ()

    with pytest.raises(ConflictError):
        leader.run(leader.tracker.track([late], 2, work()))
    assert done == []
    assert not leader.tracker.current().covers(late.metadata)
