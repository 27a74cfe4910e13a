"""The parts of a trace: jobs with their requests and real use, and faults of the machines."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from fairlead.placement import NodeState, Placement
from fairlead.request import WHOLE, Request, problems
from fairlead.units import Bytes, Watts

RAMP_STEPS: Final = 8
"""The number of equal steps in which a ramp is played."""


@dataclass(frozen=True, slots=True)
class UsageStep:
    """From this time of a job's work on, it holds this much memory of each of its accelerators."""

    after: float
    """Seconds since its work began."""
    memory: Bytes


@dataclass(frozen=True, slots=True)
class UsageSpike:
    """A period of higher memory use."""

    after: float
    seconds: float
    memory: Bytes


@dataclass(frozen=True)
class Job:
    """One job: one request, or several that run together or not at all."""

    name: str
    arrival: float
    """Seconds since the trace began."""
    duration: float
    """Seconds that it takes alone on its accelerators; infinite: it runs until the end."""
    requests: tuple[Request, ...]
    load: float | None = None
    """The part of each accelerator that it keeps busy when alone; None: what it requests."""
    memory: tuple[UsageStep, ...] = ()
    """The memory that it really holds of each accelerator over time; empty: what it requests."""
    start: float = 0.0
    """Seconds from its placement to the first work: image, container, libraries."""
    warm_up: float = 0.0
    """Seconds from its first memory to its first work: the context is open, and libraries load."""
    crowded_start: float = 1.0
    """The factor by which start-up and warm-up take longer beside jobs that are at work."""
    least_slowdown: float = 1.0
    """The factor by which its work takes longer even alone, where co-runners do not slow it down more."""
    least: Bytes | None = None
    """The memory of each accelerator below which it fails; above, it keeps what it could get."""
    gives_back: bool = False
    """Its allocator gives memory back while it runs, where its limit is lowered."""
    image: str = ""
    """What its sizes are learned by; empty: its name."""
    outstanding: float | None = None
    """The share of time in which it has work outstanding on its accelerators; None: its load."""

    @property
    def priority(self) -> int:
        """The priority of its requests."""
        return self.requests[0].priority


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a node, or of one accelerator of it, at a given time."""

    at: float
    node: str
    device: str = ""
    """Empty: the whole node."""
    seconds: float | None = None
    """Until it is repaired; None: never."""


@dataclass(frozen=True, slots=True)
class RandomFaults:
    """Random faults: exponential times to failure and to repair, in seconds, for each target of a kind."""

    kind: str
    """`node` or `device`."""
    mtbf: float
    mttr: float


@dataclass(frozen=True, slots=True)
class PowerCurve:
    """The power draw of an accelerator."""

    idle: Watts
    awake: Watts
    """With a job that is idle."""
    full: Watts
    sliced: Watts | None = None
    """With jobs of small kernels that switch all the time; None: as with a full load."""

    def sliced_watts(self, busy: float) -> float:
        """Return the power draw by the busy share of a time-sliced accelerator."""
        top = self.full if self.sliced is None else self.sliced
        return self.awake + (top - self.awake) * busy

    def watts(self, jobs: int, load: float) -> float:
        """Return the power draw with this number of jobs and this load, 0 to 1."""
        return self.awake + (self.full - self.awake) * min(1.0, load) if jobs else self.idle


@dataclass(frozen=True)
class SimulatedFleet:
    """The machines of a simulation."""

    nodes: tuple[NodeState, ...]
    power: Mapping[str, PowerCurve] = field(default_factory=dict)
    """By model of accelerator; the energy of an absent model is not counted."""
    first_context: Mapping[str, Bytes] = field(default_factory=dict)
    """By model of accelerator: memory that the driver holds as long as any context is open."""
    residents: tuple[Placement, ...] = ()
    """Existing placements: they keep their places, and the figures of jobs leave them out."""


@dataclass(frozen=True)
class Trace:
    """The input of a simulation: jobs, faults and, optionally, machines."""

    name: str
    jobs: tuple[Job, ...]
    faults: tuple[Fault, ...] = ()
    failures: tuple[RandomFaults, ...] = ()
    fleet: SimulatedFleet | None = None
    """The machines of the trace, if it has any."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Settings of the trace; the command line overrides them."""


def memory_curve(
    start: Bytes, plateau: Bytes, ramp: float, spikes: Iterable[UsageSpike] = ()
) -> tuple[UsageStep, ...]:
    """Return real memory over time: a ramp from `start` to a plateau, with spikes above it."""
    steps = [UsageStep(0.0, start if ramp else plateau)]
    for index in range(1, RAMP_STEPS + 1) if ramp else ():
        grown = start + (plateau - start) * index // RAMP_STEPS
        steps.append(UsageStep(ramp * index / RAMP_STEPS, Bytes(grown)))
    for spike in sorted(spikes, key=lambda spike: spike.after):
        steps += [UsageStep(spike.after, spike.memory), UsageStep(spike.after + spike.seconds, plateau)]
    return tuple(sorted(steps, key=lambda step: step.after))


def staged_curve(
    context: Bytes, stages: Iterable[Bytes], warm_up: float, apart: float
) -> tuple[UsageStep, ...]:
    """Return real memory of an allocator that grows in stages once the work begins."""
    grown = (UsageStep(warm_up + apart * at, stage) for at, stage in enumerate(stages))
    return UsageStep(0.0, context), *grown


def speed_up(trace: Trace, times: float) -> Trace:
    """Return a trace whose jobs arrive that many times faster; durations and faults stay the same."""
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
    """Return why a job is invalid, each text naming its field."""
    texts = [text for request in job.requests[:1] for text in problems(request)]
    if not job.requests:
        texts.append("requests: there is none")
    if not 0 <= job.arrival < 1e12:
        texts.append(f"arrival: {job.arrival} is not a time of the trace")
    if not job.duration > 0:
        texts.append(f"duration: {job.duration} is not a positive number of seconds")
    if not 0 <= job.start < 1e12:
        texts.append(f"start: {job.start} is not a number of seconds")
    if not 0 <= job.warm_up < 1e12:
        texts.append(f"warm-up: {job.warm_up} is not a number of seconds")
    for name, share in (("load", job.load), ("outstanding", job.outstanding)):
        if share is not None and not 0 <= share <= 1:
            texts.append(f"{name}: {share} is not between 0 and 1")
    return tuple(texts)
