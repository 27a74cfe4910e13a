"""Synthetic clusters and what they run: a kind of cluster and a seed give one trace with machines.

A kind is a row of ranges. The seed draws a fleet of a few kinds of node and a mix of kinds of pod, and scales
the fleet so that CPU and memory are as scarce beside the accelerators as the kind says.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from random import Random
from typing import Final

from fairlead.errors import SettingsError
from fairlead.placement import DeviceState, NodeState
from fairlead.request import WHOLE, Demand, Gang, Request
from fairlead.simulate.trace.job import Job, SimulatedFleet, Trace
from fairlead.units import Bytes

DEMAND: Final = 1.3
"""The demand at the end, or at any time where jobs end, relative to all accelerators."""
TURNOVERS: Final = 4
"""Where jobs end: how often all accelerators are requested in total."""
DURATION: Final = 3600.0
"""Seconds that a job lasts on the mean, where jobs end."""

GIB: Final = 1 << 30
Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class ClusterKind:
    """Ranges from which a seed draws a cluster and what it runs."""

    help: str
    cpu: Range = (1.5, 3.0)
    """CPU of all nodes, relative to what pods would request beside all accelerators."""
    memory: Range = (2.0, 4.0)
    """Memory of all nodes, likewise."""
    plain: Range = (0.0, 0.2)
    """The part of the requested CPU that pods without accelerators request."""
    plain_memory: Range = (0.5, 2.0)
    """Memory for CPU of pods without accelerators, relative to others."""
    spread: Range = (0.1, 0.5)
    """By how much pods differ in CPU and memory for an accelerator, in natural logarithms."""
    uneven: Range = (0.0, 0.4)
    """By how much kinds of node differ in these."""
    shares: Range = (0.2, 0.7)
    """The part of the pods with accelerators that take a share of one."""
    several: Range = (0.0, 0.1)
    """The part that takes two, four or eight."""
    models: tuple[int, int] = (1, 2)
    """How many models of accelerator there are."""
    typed: Range = (0.0, 0.0)
    """The part of the pods with accelerators that name a model."""
    gangs: Range = (0.0, 0.0)
    """The part of the jobs with accelerators that are gangs."""
    ends: bool = False
    """Whether jobs end."""


KINDS: Final[Mapping[str, ClusterKind]] = {
    "gpu-bound": ClusterKind("accelerators are scarce; CPU and memory are ample"),
    "cpu-bound": ClusterKind(
        "pods without accelerators compete for the CPU beside them", cpu=(0.9, 1.3), plain=(0.2, 0.7)
    ),
    "hungry": ClusterKind(
        "whole accelerators beside pods that need only CPU, and much of it",
        cpu=(1.0, 1.3), plain=(0.3, 0.7), uneven=(0.0, 0.3), shares=(0.0, 0.0), several=(0.0, 0.05),
    ),
    "cpu-uneven": ClusterKind(
        "pods and nodes differ much in CPU for an accelerator",
        cpu=(0.95, 1.4), spread=(0.5, 1.2), uneven=(0.2, 0.8),
    ),
    "memory-bound": ClusterKind(
        "memory of the nodes is scarce beside the accelerators",
        memory=(0.9, 1.3), plain=(0.0, 0.4), plain_memory=(1.0, 4.0), spread=(0.2, 0.9), uneven=(0.0, 0.6),
    ),
    "typed": ClusterKind(
        "pods name the model of their accelerator", cpu=(1.0, 2.0), models=(3, 6), typed=(0.2, 0.6)
    ),
    "gangs": ClusterKind(
        "many jobs are gangs or take several accelerators",
        cpu=(1.0, 2.0), shares=(0.0, 0.4), several=(0.1, 0.4), gangs=(0.1, 0.4),
    ),
    "departures": ClusterKind(
        "jobs end, and others take their places", cpu=(0.95, 2.0), plain=(0.0, 0.5), ends=True
    ),
    "mixed": ClusterKind(
        "any of these at once",
        cpu=(0.85, 2.0), memory=(0.85, 2.5), plain=(0.0, 0.6), plain_memory=(0.3, 4.0), spread=(0.0, 1.0),
        uneven=(0.0, 0.8), shares=(0.0, 0.9), several=(0.0, 0.2), models=(1, 4), typed=(0.0, 0.3),
        gangs=(0.0, 0.1),
    ),
}  # fmt: skip
"""By name."""


@dataclass(frozen=True, slots=True)
class PodKind:
    """One kind of pod of a mix, and how often it occurs."""

    weight: float
    demand: Demand
    cpu: float
    """Thousandths of a core."""
    memory: float
    members: int = 1
    """Pods of a gang."""

    @property
    def accelerators(self) -> float:
        """What a job of this kind takes, in thousandths of an accelerator."""
        return self.members * self.demand.count * float(self.demand.compute or 0)


def synthetic_trace(kind: str, seed: int, accelerators: int = 400) -> Trace:
    """Return the trace of a kind of cluster and a seed, with about that many accelerators."""
    if kind not in KINDS:
        raise SettingsError(f"unknown kind of cluster {kind!r}", f"known: {', '.join(KINDS)}")
    ranges, random = KINDS[kind], Random(f"{kind}/{seed}")  # noqa: S311 - a simulation, no secret
    models = [f"model-{at}" for at in range(random.randint(*ranges.models))]
    shapes = _node_shapes(ranges, random, models, accelerators)
    mix = _mix(ranges, random, sorted({shape.model for shape, _ in shapes if shape.count}))
    nodes = _nodes(ranges, random, shapes, mix)
    mix = [_fitted(pod, nodes) for pod in mix]
    capacity = WHOLE * sum(len(node.devices) for node in nodes)
    jobs = tuple(_jobs(ranges, random, mix, capacity))
    return Trace(f"{kind}, seed {seed}", jobs, fleet=SimulatedFleet(tuple(nodes)), settings=_SETTINGS)


_SETTINGS: Final = {"interference": "none"}


@dataclass(frozen=True, slots=True)
class _NodeShape:
    model: str
    count: int
    cpu: float
    """Relative to one accelerator of other nodes; likewise the memory."""
    memory: float


def _node_shapes(
    ranges: ClusterKind, random: Random, models: Sequence[str], accelerators: int
) -> list[tuple[_NodeShape, int]]:
    """Return shapes of nodes with how many nodes have each; every model is on one of them."""
    uneven = random.uniform(*ranges.uneven)
    parts = max(len(models), random.randint(1, 4))
    weights = [random.uniform(0.3, 1.0) for _ in range(parts)]
    shapes = []
    for at in range(parts):
        count = random.choice((1, 2, 4, 4, 8, 8, 8))
        number = max(1, round(accelerators * weights[at] / sum(weights) / count))
        cpu, memory = (random.lognormvariate(0, uneven) for _ in range(2))
        shapes.append((_NodeShape(models[at % len(models)], count, count * cpu, count * memory), number))
    if random.random() < 0.3:  # some nodes without accelerators
        size = random.uniform(2, 8)
        shapes.append((_NodeShape("", 0, size, size), random.randint(1, max(1, accelerators // 40))))
    return shapes


def _mix(ranges: ClusterKind, random: Random, models: Sequence[str]) -> list[PodKind]:
    """Return the kinds of pod that a seed draws."""
    spread, cpu, memory = random.uniform(*ranges.spread), random.uniform(3000, 12000), random.uniform(8, 64)
    shares, several = random.uniform(*ranges.shares), random.uniform(*ranges.several)
    typed, gangs = random.uniform(*ranges.typed), random.uniform(*ranges.gangs)
    kinds = []
    for _ in range(random.randint(6, 24)):
        demand = _demand(random, shares, several)
        named = (random.choice(models),) if random.random() < typed else ()
        size = demand.count * (demand.compute or 0) / WHOLE
        kinds.append(
            PodKind(
                random.lognormvariate(0, 1),
                replace(demand, models=named),
                size * cpu * random.lognormvariate(0, spread),
                size * memory * GIB * random.lognormvariate(0, spread),
                random.choice((2, 4, 8)) if random.random() < gangs else 1,
            )
        )
    return kinds + list(_plain_kinds(ranges, random, kinds))


def _demand(random: Random, shares: float, several: float) -> Demand:
    draw = random.random()
    if draw < shares:
        compute = random.choice((125, 200, 250, 300, 400, 500, 500, 600, 750, random.randrange(50, 1000, 10)))
        return Demand(1, compute=compute)
    return Demand(random.choice((2, 4, 8)) if draw > 1 - several else 1, compute=WHOLE)


def _plain_kinds(ranges: ClusterKind, random: Random, kinds: Sequence[PodKind]) -> Iterator[PodKind]:
    """Yield kinds of pod without accelerators that request their part of the CPU."""
    part, dear = random.uniform(*ranges.plain), random.uniform(*ranges.plain_memory)
    cpu = sum(pod.weight * pod.members * pod.cpu for pod in kinds)
    memory = sum(pod.weight * pod.members * pod.memory for pod in kinds)
    number = random.randint(1, 6) if part > 0.01 else 0
    for _ in range(number):
        of_one = random.choice((1000, 2000, 4000, 8000, 16000)) * random.lognormvariate(0, 0.3)
        weight = cpu * part / (1 - part) / number / of_one
        yield PodKind(weight, Demand(), of_one, of_one * dear * memory / cpu)


def _nodes(
    ranges: ClusterKind,
    random: Random,
    shapes: Sequence[tuple[_NodeShape, int]],
    mix: Sequence[PodKind],
) -> list[NodeState]:
    """Return the nodes in random order, with the CPU and memory that the kind asks for."""
    beside = sum(pod.weight * pod.accelerators for pod in mix) / WHOLE
    total = sum(shape.count * number for shape, number in shapes)
    cpu = random.uniform(*ranges.cpu) * total / beside * sum(p.weight * p.members * p.cpu for p in mix)
    memory = (
        random.uniform(*ranges.memory) * total / beside * sum(p.weight * p.members * p.memory for p in mix)
    )
    cpu /= sum(shape.cpu * number for shape, number in shapes)
    memory /= sum(shape.memory * number for shape, number in shapes)
    drawn = [shape for shape, number in shapes for _ in range(number)]
    random.shuffle(drawn)
    return [
        NodeState(
            f"node-{at:04}",
            round(shape.cpu * cpu / WHOLE) * WHOLE,
            Bytes(round(shape.memory * memory / GIB) * GIB),
            pods=1 << 30,
            devices=tuple(DeviceState(f"{number}", shape.model) for number in range(shape.count)),
        )
        for at, shape in enumerate(drawn)
    ]


def _fitted(pod: PodKind, nodes: Sequence[NodeState]) -> PodKind:
    """Return the kind of pod in amounts that some empty node has."""
    demand = pod.demand
    able = [node for node in nodes if not demand.models or _model(node) in demand.models]
    demand = replace(demand, count=min(demand.count, max(len(node.devices) for node in able)))
    able = [node for node in able if len(node.devices) >= demand.count]
    cpu = min(pod.cpu, max(node.cpu for node in able))
    memory = min(pod.memory, max(node.memory for node in able if node.cpu >= cpu))
    return replace(pod, demand=demand, cpu=max(100, cpu // 100 * 100), memory=memory)


def _model(node: NodeState) -> str:
    return node.devices[0].model if node.devices else ""


def _jobs(ranges: ClusterKind, random: Random, mix: Sequence[PodKind], capacity: int) -> Iterator[Job]:
    """Yield jobs until they request what the protocol asks for."""
    weights, requested, at = [pod.weight for pod in mix], 0.0, 0.0
    mean = sum(pod.weight * pod.accelerators for pod in mix) / sum(weights)
    gap = DURATION * mean / (DEMAND * capacity)
    number = 0
    while requested < (TURNOVERS if ranges.ends else DEMAND) * capacity:
        pod = random.choices(mix, weights)[0]
        duration = random.expovariate(1 / DURATION) if ranges.ends else inf
        yield Job(f"job-{number}", at, duration, _requests(pod, f"job-{number}"))
        requested += pod.accelerators
        at += random.expovariate(1 / gap)
        number += 1


def _requests(pod: PodKind, name: str) -> tuple[Request, ...]:
    cpu, memory = int(pod.cpu), Bytes(int(pod.memory) >> 20 << 20)
    if pod.members == 1:
        return (Request(name, cpu=cpu, memory=memory, demand=pod.demand),)
    gang = Gang(name, pod.members)
    return tuple(
        Request(f"{name}-{at}", cpu=cpu, memory=memory, demand=pod.demand, gang=gang)
        for at in range(pod.members)
    )
