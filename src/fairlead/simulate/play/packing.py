"""Pack the jobs of a trace without a queue: a job that does not fit is refused, and does not return."""

import time
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import Final

from fairlead.request import WHOLE, Request
from fairlead.schedule import DemandMix, EngineCluster, Policy, learn, place, place_gang
from fairlead.schedule.score.mix import EVEN
from fairlead.simulate.trace.job import Job, SimulatedFleet, Trace

SETTLED: Final = 0.5
"""Where jobs end: the part of the arrivals before the allocation is measured."""


@dataclass(frozen=True, slots=True)
class PackResult:
    """The result of one policy on one trace."""

    allocation: float
    """The part of all accelerators that is allocated at the end; where jobs end, on the mean over time."""
    refused: int
    decisions: int
    seconds: float
    """Processor time of one core."""


def pack(trace: Trace, policy: Policy, mix: DemandMix = EVEN) -> PackResult:
    """Pack a trace with machines by a policy that expects this mix; by default it learns what runs."""
    started = time.process_time()
    fleet = trace.fleet or SimulatedFleet(())
    run = _Packing(EngineCluster(fleet.nodes, fleet.residents, mix), policy)
    settled = trace.jobs[int(SETTLED * len(trace.jobs))].arrival
    for job in trace.jobs:
        run.advance(job.arrival, settled)
        run.arrive(job)
    ends = any(job.duration < inf for job in trace.jobs)
    capacity = WHOLE * sum(len(node.devices) for node in fleet.nodes)
    span = trace.jobs[-1].arrival - settled
    allocated = run.integral / span if ends and span else run.allocated
    return PackResult(allocated / capacity, run.refused, run.decisions, time.process_time() - started)


class _Packing:
    """The state of one run."""

    def __init__(self, cluster: EngineCluster, policy: Policy) -> None:
        self.cluster, self.policy = cluster, policy
        self.allocated = self.refused = self.decisions = 0
        self.integral, self._now = 0.0, 0.0
        self._ends: list[tuple[float, str, tuple[Request, ...]]] = []

    def advance(self, now: float, since: float) -> None:
        """End the jobs whose time has come; `integral` counts what is allocated from `since` on."""
        while self._ends and self._ends[0][0] <= now:
            end, _, requests = heappop(self._ends)
            self._pass(end, since)
            for request in requests:
                self.allocated -= _compute(request)
                self.cluster.release(request.id)
        self._pass(now, since)

    def _pass(self, now: float, since: float) -> None:
        self.integral += self.allocated * max(0.0, now - max(self._now, since))
        self._now = now

    def arrive(self, job: Job) -> None:
        """Place a job, or refuse it."""
        self.decisions += len(job.requests)
        learn(self.cluster, self.policy)  # without effect where a mix is given
        if len(job.requests) > 1:
            placed = all(each.placed for each in place_gang(self.cluster, job.requests, self.policy))
        else:
            placed = place(self.cluster, job.requests[0], self.policy, explain=False).placed
        self.refused += not placed
        if placed:
            self.allocated += sum(map(_compute, job.requests))
            if job.duration < inf:
                heappush(self._ends, (job.arrival + job.duration, job.name, job.requests))


def _compute(request: Request) -> int:
    return request.demand.count * (request.demand.compute or 0)
