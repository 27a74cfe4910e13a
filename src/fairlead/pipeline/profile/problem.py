"""The problem of the planner, from a pipeline and its profile. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from fairlead.errors import PipelineError
from fairlead.pipeline.plan.cut import CutEdge, CutLink, CutNode, CutPlan, CutProblem, CutSink, CutStage
from fairlead.pipeline.plan.explain import HOST_HOP_S
from fairlead.pipeline.profile.facts import PipelineProfile, StageFacts
from fairlead.pipeline.spec import EdgeSpec, PipelineSpec, StageRole, StageSpec


@dataclass(frozen=True, slots=True)
class PipelineProblem:
    """A problem whose first stages are the sources of a pipeline: they are busy as well."""

    problem: CutProblem
    stages: tuple[str, ...]
    """The stages of the pipeline, in the order of its frames; a sink may be behind those of the problem."""

    def nodes_of(self, plan: CutPlan) -> tuple[str, ...]:
        """Return the node of each stage of the pipeline."""
        sink = self.problem.sink
        return (*plan.assignment, *([sink.node] if sink else ()))


def build_problem(
    spec: PipelineSpec,
    profile: PipelineProfile,
    max_latency_s: float | None = None,
    *,
    as_graph: bool = False,
    hop_s: float = HOST_HOP_S,
) -> PipelineProblem:
    """Return the problem; PipelineError where the profile does not know enough.

    In a chain each node holds one run of stages, and a sink at the source is one more transfer. With
    `as_graph`, and wherever stages join or branch, a node holds any stages.
    """
    stages = spec.in_order()
    costs = [_stage(spec, stage, profile) for stage in stages]
    source = _nodes(spec, spec.sources[0], profile)[0]
    nodes = tuple(
        CutNode(machine.name, machine.memory_bytes, _slowness(profile, machine.name))
        for machine in profile.machines
    )
    links = tuple(CutLink(link.source, link.target, link.bytes_per_s, link.delay_s) for link in profile.links)
    names = tuple(stage.name for stage in stages)
    sizes = {edge.name: _bytes_of(edge, profile) for edge in spec.edges}
    if as_graph or not spec.is_chain:
        order = {name: number for number, name in enumerate(names)}
        edges = tuple(
            CutEdge(order[edge.source], order[edge.target], sizes[edge.name]) for edge in spec.edges
        )
        problem = CutProblem(source, nodes, links, tuple(costs), max_latency_s, edges, hop_s)
        return PipelineProblem(problem, names)
    sink, node = stages[-1], _nodes(spec, stages[-1], profile)[0]
    if sink.role is not StageRole.SINK or node != source:
        problem = CutProblem(source, nodes, links, tuple(costs), max_latency_s, hop_s=hop_s)
        return PipelineProblem(problem, names)
    (last,) = spec.inputs_of(sink.name)
    way_back = CutSink(sink.name, node, sizes[last.name])
    problem = CutProblem(source, nodes, links, tuple(costs[:-1]), max_latency_s, None, hop_s, way_back)
    return PipelineProblem(problem, names)


def unknowns(profile: PipelineProfile) -> Iterator[str]:
    """Yield what a plan does not know."""
    yield from profile.notes
    for stage in profile.stages:
        for node, reason in stage.unknown.items():
            yield f"{stage.name} on {node} is not known: {reason}"
    names = [machine.name for machine in profile.machines]
    known = {(link.source, link.target) for link in profile.links}
    for one in names:
        for other in names:
            if one != other and (one, other) not in known:
                yield f"the link {one}->{other} is not known"


def _slowness(profile: PipelineProfile, machine: str) -> float:
    """Return how many times as long as on the fastest machines a machine takes for the stages that it has."""
    shared = [stage.costs for stage in profile.stages if machine in stage.costs and len(stage.costs) > 1]
    own = sum(costs[machine].seconds for costs in shared)
    least = sum(min(cost.seconds for cost in costs.values()) for costs in shared)
    return own / least if least else 1.0


def _nodes(spec: PipelineSpec, stage: StageSpec, profile: PipelineProfile) -> list[str]:
    """Return the nodes that a stage may be on: sources and sinks are where they are."""
    if stage.role in (StageRole.SOURCE, StageRole.SINK):
        return list(spec.hosts_of(stage)[:1])
    if stage.is_placed:
        return list(spec.hosts_of(stage))
    return [machine.name for machine in profile.machines]


def _stage(spec: PipelineSpec, stage: StageSpec, profile: PipelineProfile) -> CutStage:
    nodes = _nodes(spec, stage, profile)
    known = [node for node in nodes if profile.machine(node) is not None]
    if not known:
        raise PipelineError(
            f"stage {stage.name}: the profile has no machine {nodes[0]}",
            "make a new one: fairlead pipeline profile",
        )
    size = sum(_bytes_of(edge, profile) for edge in spec.inputs_of(stage.name))
    if stage.role is StageRole.SINK:  # a sink is not called for a profile: it would write
        return CutStage(stage.name, 0, size, dict.fromkeys(known, 0.0))
    facts = profile.stage(stage.name)
    if facts is None:
        raise PipelineError(
            f"the profile has no stage {stage.name}", "make a new one: fairlead pipeline profile"
        )
    seconds = {node: facts.costs[node].seconds * facts.rate for node in known if node in facts.costs}
    if not seconds:
        raise PipelineError(f"stage {stage.name}: no time of it is known{_why(facts)}", "profile it again")
    memory = max(facts.costs[node].memory_bytes for node in seconds)
    return CutStage(stage.name, memory, size, seconds)


def _why(facts: StageFacts) -> str:
    reasons = [f"{node}: {reason}" for node, reason in facts.unknown.items()]
    return f" ({'; '.join(reasons)})" if reasons else ""


def _bytes_of(edge: EdgeSpec, profile: PipelineProfile) -> float:
    """Return the bytes on an edge for each frame of the source."""
    for facts in profile.edges:
        if (facts.source, facts.target) == (edge.source, edge.target):
            return facts.bytes * facts.rate
    raise PipelineError(
        f"the profile has no edge {edge.name}",
        "make a new one: fairlead pipeline profile, with more --frames",
    )
