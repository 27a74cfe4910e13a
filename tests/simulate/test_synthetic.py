"""Synthetic clusters: what a kind promises holds for every seed, and packing counts what it says."""

from math import inf

import pytest

from fairlead.errors import SettingsError
from fairlead.placement import DeviceState, NodeState
from fairlead.request import Demand, Request
from fairlead.schedule import POLICIES, EngineCluster, place
from fairlead.simulate.play.packing import pack
from fairlead.simulate.trace.job import Job, SimulatedFleet, Trace
from fairlead.simulate.trace.synthetic import DEMAND, KINDS, synthetic_trace
from fairlead.units import Bytes

SMALL = 24
"""Accelerators."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_decides_the_cluster_and_its_jobs(kind: str) -> None:
    assert synthetic_trace(kind, 1, SMALL) == synthetic_trace(kind, 1, SMALL)
    assert synthetic_trace(kind, 1, SMALL) != synthetic_trace(kind, 2, SMALL)


@pytest.mark.parametrize("kind", KINDS)
def test_every_pod_fits_on_an_empty_cluster(kind: str) -> None:
    for seed in range(3):
        trace = synthetic_trace(kind, seed, SMALL)
        assert trace.fleet is not None
        empty = EngineCluster(trace.fleet.nodes)
        shapes = {request.shape: request for job in trace.jobs for request in job.requests}
        for request in shapes.values():
            mark = empty.checkpoint()
            assert place(empty, request, "bestfit").placed, request
            empty.rollback(mark)


@pytest.mark.parametrize("kind", KINDS)
def test_demand_reaches_its_target(kind: str) -> None:
    trace = synthetic_trace(kind, 5, SMALL)
    assert trace.fleet is not None
    capacity = sum(len(node.devices) for node in trace.fleet.nodes)
    requests = [request for job in trace.jobs for request in job.requests]
    demand = sum(request.demand.count * (request.demand.compute or 0) for request in requests) / 1000
    assert demand >= DEMAND * capacity
    assert all((job.duration < inf) == KINDS[kind].ends for job in trace.jobs)


def test_cpu_is_as_scarce_as_the_kind_says() -> None:
    for seed in range(5):
        trace = synthetic_trace("hungry", seed)
        assert trace.fleet is not None
        nodes, requests = trace.fleet.nodes, [request for job in trace.jobs for request in job.requests]
        cpu = sum(node.cpu for node in nodes)
        beside = sum(request.cpu for request in requests) / DEMAND
        least, most = KINDS["hungry"].cpu
        assert 0.85 * least < cpu / beside < 1.15 * most


def test_an_unknown_kind_is_an_error_that_names_the_kinds() -> None:
    with pytest.raises(SettingsError, match="unknown kind of cluster 'big'") as error:
        synthetic_trace("big", 0)
    assert "hungry" in str(error.value.hint)


def _trace(*jobs: Job) -> Trace:
    devices = (DeviceState("0", "m"), DeviceState("1", "m"))
    fleet = SimulatedFleet((NodeState("n", 4000, Bytes(1 << 30), devices=devices),))
    return Trace("t", jobs, fleet=fleet)


def _job(name: str, at: float, duration: float = inf, compute: int = 1000) -> Job:
    return Job(name, at, duration, (Request(name, cpu=1000, demand=Demand(1, compute=compute)),))


def test_packing_counts_what_is_allocated_at_the_end() -> None:
    result = pack(_trace(_job("a", 0), _job("b", 1, compute=500), _job("c", 2)), POLICIES["fairlead"])
    assert (result.allocation, result.refused, result.decisions) == (0.75, 1, 3)


def test_packing_takes_the_mean_over_time_where_jobs_end() -> None:
    jobs = [_job("a", 0, 15), _job("b", 10, 10), _job("c", 20, 1)]
    # From 10 to 20 both accelerators are taken for half of the time, and one for the rest.
    assert pack(_trace(*jobs), POLICIES["fairlead"]).allocation == pytest.approx(0.75)
