"""Small worlds for simulations: machines, jobs, and one call that plays them."""

from collections.abc import Iterable
from typing import Any

from fairlead.placement import DeviceState, NodeState
from fairlead.request import Demand, Gang, Request
from fairlead.simulate.play.simulation import JobRecord, Simulation, SimulationOutcome
from fairlead.simulate.play.world import PlacementPolicy, RequestPolicy
from fairlead.simulate.trace.job import Fault, Job, PowerCurve, RandomFaults, SimulatedFleet, Trace, UsageStep
from fairlead.simulate.trace.settings import SimulationSettings
from fairlead.units import Bytes, Watts

GIB = 1 << 30
POWER = PowerCurve(Watts(10), Watts(20), Watts(100))


def node(name: str = "server", gpus: int = 1, memory: int = 8, cpu: int = 64_000) -> NodeState:
    """Return a node with equal accelerators of that many GiB."""
    devices = tuple(DeviceState(f"gpu-{at}", "t4", "NVIDIA", Bytes(memory * GIB)) for at in range(gpus))
    return NodeState(name, cpu, Bytes(256 * GIB), devices=devices)


def fleet(*nodes: NodeState) -> SimulatedFleet:
    """Return machines; by default one server with one accelerator."""
    return SimulatedFleet(nodes or (node(),), {"t4": POWER})


def job(  # what tests vary, by name
    name: str = "job",
    at: float = 0.0,
    seconds: float = 100.0,
    gib: int | None = 4,
    *,
    gpus: int = 1,
    priority: int = 0,
    replicas: int = 1,
    load: float = 0.1,
    start: float = 0.0,
    real: Iterable[tuple[float, int]] = (),
) -> Job:
    """Return a job that asks for a share of that many GiB; None: for whole accelerators."""
    demand = Demand(gpus, None if gib is None else Bytes(gib * GIB))
    gang = Gang(name, replicas) if replicas > 1 else None
    names = [name] if gang is None else [f"{name}-{at}" for at in range(replicas)]
    requests = tuple(Request(name, demand=demand, priority=priority, gang=gang) for name in names)
    steps = tuple(UsageStep(after, Bytes(memory * GIB)) for after, memory in real)
    return Job(name, at, seconds, requests, load, steps, start)


def play(
    jobs: Iterable[Job],
    machines: SimulatedFleet | None = None,
    policy: str | PlacementPolicy = "binpack",
    *,
    faults: Iterable[Fault] = (),
    failures: Iterable[RandomFaults] = (),
    seed: int = 0,
    **settings: Any,
) -> SimulationOutcome:
    """Play jobs to the end."""
    trace = Trace("test", tuple(jobs), tuple(faults), tuple(failures))
    placement_policy = RequestPolicy(policy) if isinstance(policy, str) else policy
    rules = SimulationSettings(**{"interference": "none", **settings})
    return Simulation(trace, machines or fleet(), placement_policy, rules, seed).play()


def records(outcome: SimulationOutcome) -> dict[str, JobRecord]:
    """Return the record of each job, by name."""
    return {record.job.name: record for record in outcome.records}


def ends(outcome: SimulationOutcome) -> dict[str, float | None]:
    """Return when each job finished."""
    return {record.job.name: record.finished for record in outcome.records}
