"""What is played: jobs with what they ask and what they really use, and faults of the machines."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from fairlead.placement import NodeState, Placement
from fairlead.request import WHOLE, Request, problems
from fairlead.units import Bytes, Watts

RAMP_STEPS: Final = 8
"""A ramp is played as that many equal steps."""


@dataclass(frozen=True, slots=True)
class UsageStep:
    """From this moment of a job's life on, it holds this much of each of its accelerators."""

    after: float
    """Seconds since its work began."""
    memory: Bytes


@dataclass(frozen=True, slots=True)
class UsageSpike:
    """A moment of higher use."""

    after: float
    seconds: float
    memory: Bytes


@dataclass(frozen=True)
class Job:
    """One piece of work: one request, or several that run together or not at all."""

    name: str
    arrival: float
    """Seconds since the trace began."""
    duration: float
    """Seconds that it takes alone on its accelerators; infinite: it stays until the end."""
    requests: tuple[Request, ...]
    load: float | None = None
    """The part of each accelerator that it keeps busy when alone; None: what it asked for."""
    memory: tuple[UsageStep, ...] = ()
    """What it really holds of each accelerator, in order of time; empty: what it asked for."""
    start: float = 0.0
    """Seconds from its placement to the first work: image, container, libraries."""

    @property
    def priority(self) -> int:
        """The priority of its requests."""
        return self.requests[0].priority


@dataclass(frozen=True, slots=True)
class Fault:
    """A node, or one accelerator of it, that fails at a given moment."""

    at: float
    node: str
    device: str = ""
    """Empty: the whole node."""
    seconds: float | None = None
    """Until it is repaired; None: never."""


@dataclass(frozen=True, slots=True)
class RandomFaults:
    """Random faults: exponential times of health and of repair, in seconds, for each thing of a kind."""

    kind: str
    """`node` or `device`."""
    mtbf: float
    mttr: float


@dataclass(frozen=True, slots=True)
class PowerCurve:
    """What an accelerator draws."""

    idle: Watts
    awake: Watts
    """With a job on it that computes nothing."""
    full: Watts

    def watts(self, jobs: int, load: float) -> float:
        """Return the draw under this load, 0 to 1, by so many jobs."""
        return self.awake + (self.full - self.awake) * min(1.0, load) if jobs else self.idle


@dataclass(frozen=True)
class SimulatedFleet:
    """The machines of a simulation."""

    nodes: tuple[NodeState, ...]
    power: Mapping[str, PowerCurve] = field(default_factory=dict)
    """By model of accelerator; a model that is not here counts no energy."""
    residents: tuple[Placement, ...] = ()
    """What is placed there already: it keeps its place, and is no part of the figures of jobs."""


@dataclass(frozen=True)
class Trace:
    """Everything that happens to a fleet from outside."""

    name: str
    jobs: tuple[Job, ...]
    faults: tuple[Fault, ...] = ()
    failures: tuple[RandomFaults, ...] = ()
    fleet: SimulatedFleet | None = None
    """Where the trace brings its own machines."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """What it was recorded under; the command line goes before."""


def memory_curve(
    start: Bytes, plateau: Bytes, ramp: float, spikes: Iterable[UsageSpike] = ()
) -> tuple[UsageStep, ...]:
    """Return real memory over time: from `start` over a ramp to a plateau, with spikes above it."""
    steps = [UsageStep(0.0, start if ramp else plateau)]
    for index in range(1, RAMP_STEPS + 1) if ramp else ():
        grown = start + (plateau - start) * index // RAMP_STEPS
        steps.append(UsageStep(ramp * index / RAMP_STEPS, Bytes(grown)))
    for spike in sorted(spikes, key=lambda each: each.after):
        steps += [UsageStep(spike.after, spike.memory), UsageStep(spike.after + spike.seconds, plateau)]
    return tuple(sorted(steps, key=lambda step: step.after))


def speed_up(trace: Trace, times: float) -> Trace:
    """Return a trace whose jobs arrive that many times faster; they and the faults are as they were."""
    return replace(trace, jobs=tuple(replace(job, arrival=job.arrival / times) for job in trace.jobs))


def with_failures(trace: Trace, failures: RandomFaults) -> Trace:
    """Return a trace with these random faults instead of others of their kind."""
    others = (failure for failure in trace.failures if failure.kind != failures.kind)
    return replace(trace, failures=(*others, failures))


def load_of(job: Job, request: Request, memory: int) -> float:
    """Return the part of one accelerator, with that much memory, that a job keeps busy when alone."""
    if job.load is not None:
        return job.load
    demand = request.demand
    if demand.compute is not None:
        return demand.compute / WHOLE
    if demand.memory is not None and memory:
        return min(1.0, demand.memory / memory)
    return 1.0


def job_problems(job: Job) -> tuple[str, ...]:
    """Return what makes a job nonsense, each naming its field."""
    found = [text for request in job.requests[:1] for text in problems(request)]
    if not job.requests:
        found.append("requests: there is none")
    if not 0 <= job.arrival < 1e12:
        found.append(f"arrival: {job.arrival} is not a moment of the trace")
    if not job.duration > 0:
        found.append(f"duration: {job.duration} is not a positive number of seconds")
    if not 0 <= job.start < 1e12:
        found.append(f"start: {job.start} is not a number of seconds")
    if job.load is not None and not 0 <= job.load <= 1:
        found.append(f"load: {job.load} is not between 0 and 1")
    return tuple(found)
