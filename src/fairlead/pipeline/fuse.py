"""Which processes a pipeline becomes: fused neighbours, replicas, and the links between them. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from fairlead.pipeline.edge import EdgePolicy
from fairlead.pipeline.spec import LOCAL, EdgeSpec, OnError, PipelineSpec, StageRole, StageSpec
from fairlead.pipeline.transport import MOST_DEPTH

_SPARE_SLOTS: Final = 2
"""Beside the frames that an edge holds: one is worked on, one is on its way."""
PATH_MARK: Final = "@"
"""Before the number of the placement that a process was started for: `detect@1`."""


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """One process: the stages that run in it, one after another."""

    name: str
    """The names of its stages, and the number of the replica: `camera+blur`, `detect/1`."""
    stages: tuple[StageSpec, ...]
    host: str = LOCAL
    """Where it runs."""
    address: str = ""
    """That of the host; empty: the machine of the coordinator."""
    share: int = 0
    """Of a canary: the percent of the frames that it takes at most; 0: no canary."""

    @property
    def place(self) -> str:
        """The machine by which it is reached: a host may change its address while a pipeline runs."""
        return self.address or LOCAL

    @property
    def on_error(self) -> OnError:
        """What happens when the process ends; fused stages agree in it."""
        return self.stages[0].on_error


@dataclass(frozen=True, slots=True)
class LinkPlan:
    """A ring between two processes, or a link between two hosts."""

    edge: EdgeSpec
    sender: str
    receiver: str
    slots: int
    path: int = 0
    """The number of the placement that made the link: the links of an edge change together."""
    share: int = 0
    """Of a canary that receives: the percent of the frames."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """All processes and links of a pipeline."""

    spec: PipelineSpec
    workers: tuple[WorkerPlan, ...]
    links: tuple[LinkPlan, ...]
    marked: frozenset[str]
    """Edges on which a dropped or filtered frame leaves a mark: a stage behind waits for it."""
    movable: frozenset[str] = frozenset()
    """Stages that may be moved while the pipeline runs: they share no process with others."""

    def worker(self, name: str) -> WorkerPlan:
        """Return the process of this name."""
        return next(worker for worker in self.workers if worker.name == name)

    def place_of(self, stage: str, name: str) -> tuple[str, int]:
        """Return a process with the index of a stage in it."""
        return name, [each.name for each in self.worker(name).stages].index(stage)

    def is_source(self, name: str) -> bool:
        """Return whether frames begin in a process."""
        return self.worker(name).stages[0].role is StageRole.SOURCE

    def links_of(self, name: str) -> tuple[LinkPlan, ...]:
        """Return every link that begins or ends at a process."""
        return tuple(link for link in self.links if name in (link.sender, link.receiver))

    def streams_of(self, name: str) -> frozenset[int]:
        """Return the streams whose frames reach a process."""
        numbers = {stage.name: number for number, stage in enumerate(self.spec.sources)}
        left, seen = [self.worker(name).stages[0].name], set[str]()
        while left:
            stage = left.pop()
            seen.add(stage)
            left += [edge.source for edge in self.spec.inputs_of(stage) if edge.source not in seen]
        return frozenset(numbers[stage] for stage in seen if stage in numbers)


def plan_workers(spec: PipelineSpec, movable: frozenset[str] = frozenset()) -> RunPlan:
    """Return the processes of a checked pipeline; movable stages share no process with others."""
    groups = _groups(spec, movable)
    workers = tuple(
        WorkerPlan(
            "+".join(stage.name for stage in group) + (f"/{index}" if group[0].is_replicated else ""),
            group,
            *place,
            _share(group[0], index),
        )
        for group in groups
        for index, place in enumerate(spec.places_of(group[0]))
    )
    fused = {(a.name, b.name) for group in groups for a, b in pairwise(group)}
    links = tuple(
        LinkPlan(edge, sender.name, receiver.name, _slots(edge, receiver), share=receiver.share)
        for edge in spec.edges
        if (edge.source, edge.target) not in fused
        for sender in workers
        if sender.stages[-1].name == edge.source
        for receiver in workers
        if receiver.stages[0].name == edge.target
    )
    return RunPlan(spec, workers, links, _marked(spec), movable)


def _share(stage: StageSpec, index: int) -> int:
    return stage.canary.percent if stage.canary is not None and index >= stage.replicas else 0


def place_workers(plan: RunPlan, nodes: Mapping[str, str], path: int) -> RunPlan:
    """Return the plan with movable stages on other hosts."""
    moved = {name: node for name, node in nodes.items() if name in plan.movable}
    stages = [replace(each, on=moved.get(each.name, each.on)) for each in plan.spec.stages]
    return replace_spec(plan, replace(plan.spec, stages=tuple(stages)), path)


def replace_spec(plan: RunPlan, spec: PipelineSpec, path: int) -> RunPlan:
    """Return the plan of a pipeline that has changed; processes and links that stay keep their names."""
    placed = plan_workers(spec, plan.movable)
    names = _names(plan, placed, path)
    old_links = {(link.edge.name, link.sender, link.receiver): link for link in plan.links}
    links = []
    for link in placed.links:
        ends = (link.edge.name, names[link.sender], names[link.receiver])
        made = replace(link, sender=ends[1], receiver=ends[2], path=path)
        links.append(old_links.get(ends, made))
    workers = tuple(replace(each, name=names[each.name]) for each in placed.workers)
    return replace(placed, workers=workers, links=tuple(links))


def _names(plan: RunPlan, placed: RunPlan, path: int) -> dict[str, str]:
    """Return the name of each process of a new plan: that of the old one where the same process can stay.

    All replicas of a stage change together, since all links of an edge do. Replicas before a stage that
    changes do as well: only one process can say with which frame the new path begins.
    """
    known = [(_identity(each), each.name) for each in plan.workers]
    own = {
        each.name: next((name for identity, name in known if identity == _identity(each)), "")
        for each in placed.workers
    }
    numbers, wanted = (
        Counter(stage.name for worker in each.workers for stage in worker.stages) for each in (plan, placed)
    )
    changed = {
        stage.name
        for worker in placed.workers
        for stage in worker.stages
        if not own[worker.name] or numbers[stage.name] != wanted[stage.name]
    }
    before = {edge.source for edge in placed.spec.edges if edge.target in changed}
    changed |= {name for name in before if placed.spec.stage(name).is_replicated}
    return {
        each.name: f"{each.name}{PATH_MARK}{path}" if each.stages[0].name in changed else own[each.name]
        for each in placed.workers
    }


def _identity(worker: WorkerPlan) -> tuple[str, str, tuple[StageSpec, ...]]:
    """Return what must be the same for a process to stay; where it is written in the file may change."""
    stages = tuple(stage.settings for stage in worker.stages)
    return worker.name.partition(PATH_MARK)[0], worker.place, stages


def is_merged(spec: PipelineSpec, edge: EdgeSpec) -> bool:
    """Return whether the frames of an edge are put in order where it ends: of replicas, and before a join."""
    start, end = spec.stage(edge.source), spec.stage(edge.target)
    return (start.is_replicated and start.ordered and not end.is_replicated) or len(
        spec.inputs_of(end.name)
    ) > 1


def _groups(spec: PipelineSpec, movable: frozenset[str]) -> list[tuple[StageSpec, ...]]:
    """Return the stages that share a process, each group in the order of its edges."""
    after = {edge.source: edge.target for edge in spec.edges if _is_fused(spec, edge, movable)}
    inner = set(after.values())
    groups = []
    for stage in spec.stages:
        if stage.name not in inner:
            group = [stage]
            while group[-1].name in after:
                group.append(spec.stage(after[group[-1].name]))
            groups.append(tuple(group))
    return groups


def _is_fused(spec: PipelineSpec, edge: EdgeSpec, movable: frozenset[str]) -> bool:
    """Return whether the two stages of an edge share a process: nothing can queue between them."""
    start, end = spec.stage(edge.source), spec.stage(edge.target)
    return (
        spec.fuse
        and (start.name in movable) == (end.name in movable)
        and edge.contract.policy is EdgePolicy.BLOCK
        and edge.contract.max_age is None
        and len(spec.outputs_of(start.name)) == len(spec.inputs_of(end.name)) == 1
        and not (start.is_replicated or end.is_replicated)
        and StageRole.EXEC not in (start.role, end.role)  # a program computes beside its worker
        and start.batch is None
        and end.batch is None
        and (start.on_error, start.cores, start.memory, start.on)
        == (end.on_error, end.cores, end.memory, end.on)
    )


def _slots(edge: EdgeSpec, receiver: WorkerPlan) -> int:
    batch = receiver.stages[0].batch
    slots = edge.contract.depth + _SPARE_SLOTS
    if batch:  # a size that is chosen for throughput needs the next batch to fill during a call
        slots += batch.most if batch.latency is None else 2 * batch.most
    return min(MOST_DEPTH, slots)


def _marked(spec: PipelineSpec) -> frozenset[str]:
    marked = {edge.name for edge in spec.edges if is_merged(spec, edge)}
    while True:
        ends = {edge.source for edge in spec.edges if edge.name in marked}
        more = {edge.name for edge in spec.edges if edge.target in ends} - marked
        if not more:
            return frozenset(marked)
        marked |= more
