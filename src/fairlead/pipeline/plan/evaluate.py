"""What follows from an assignment: busy times, transfers, period and latency, or why it is impossible. Pure.

Sums are taken in one order: the seconds of a node in the order of its stages, then its part of hops; the
latency along the edges, for each stage the transfer, the delay and its seconds.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from fairlead.pipeline.plan.cut import (
    SOURCE,
    CutEdge,
    CutHop,
    CutLoad,
    CutPlan,
    CutProblem,
    CutRefusal,
    CutStage,
    within,
)
from fairlead.units import format_bytes

_Hops = dict[CutEdge, CutHop]


def evaluate(problem: CutProblem, assignment: Sequence[str]) -> CutPlan | CutRefusal:
    """Return the plan with these nodes for the stages in their order, or why it is impossible.

    Whether a node holds one run of stages is the caller's to know: a graph has no runs.
    """
    refusal = _stage_refusal(problem, assignment) or _memory_refusal(problem, assignment)
    if refusal is not None:
        return refusal
    hops = _hops(problem, assignment)
    if isinstance(hops, CutRefusal):
        return hops
    loads = tuple(_loads(problem, assignment, hops))
    period, bottleneck = _busiest(loads, hops.values())
    latency = _latency(problem, assignment, hops)
    if not math.isfinite(latency):
        return CutRefusal("its times add up to more than a number can hold", "give times in seconds")
    limit = problem.max_latency_s
    if limit is not None and not within(latency, limit):
        return CutRefusal(f"its latency of {latency:.6g} s is above max_latency_s, {limit:.6g} s")
    return CutPlan(tuple(assignment), period, latency, bottleneck, loads, tuple(hops.values()))


def format_amounts(*amounts: float) -> list[str]:
    """Return amounts of memory; in bytes where they differ and would look the same."""
    texts = [format_bytes(math.ceil(amount)) for amount in amounts]
    if len(set(texts)) == len(set(amounts)):
        return texts
    return [f"{amount:,.17g} bytes" for amount in amounts]


def _stage_refusal(problem: CutProblem, assignment: Sequence[str]) -> CutRefusal | None:
    for stage, node in zip(problem.stages, assignment, strict=True):
        if node not in stage.seconds:
            return CutRefusal(f"{node} cannot run {stage.name}: it is missing from the stage's seconds")
    return None


def _memory_refusal(problem: CutProblem, assignment: Sequence[str]) -> CutRefusal | None:
    for node in problem.nodes:
        needed = sum(stage.memory_bytes for stage in _stages_on(problem, assignment, node.name))
        if needed > node.memory_bytes:
            has, needs = format_amounts(node.memory_bytes, needed)
            return CutRefusal(f"{node.name} has {has} of memory, and its stages need {needs}")
    return None


def _hops(problem: CutProblem, assignment: Sequence[str]) -> _Hops | CutRefusal:
    links = problem.links_by_ends()
    hops: _Hops = {}
    for edge in problem.all_edges:
        source = problem.source if edge.before == SOURCE else assignment[edge.before]
        target = assignment[edge.behind]
        if source == target:
            continue
        stage = problem.stages[edge.behind].name
        link = links.get((source, target))
        if link is None:
            return CutRefusal(f"there is no link {source}->{target} for the frames into {stage}")
        hops[edge] = CutHop(link, stage, edge.bytes, edge.bytes / link.bytes_per_s)
    last, sink = len(problem.stages) - 1, problem.sink
    if sink is None or assignment[last] == sink.node:
        return hops
    link = links.get((assignment[last], sink.node))
    if link is None:
        return CutRefusal(
            f"there is no link {assignment[last]}->{sink.node} for the results into {sink.name}"
        )
    edge = CutEdge(last, last + 1, sink.bytes)
    hops[edge] = CutHop(link, sink.name, sink.bytes, sink.bytes / link.bytes_per_s)
    return hops


def _loads(problem: CutProblem, assignment: Sequence[str], hops: _Hops) -> Iterable[CutLoad]:
    end_seconds = problem.end_seconds()
    for node in dict.fromkeys((*assignment, problem.source)):
        stages = _stages_on(problem, assignment, node)
        ends = sum((hop.link.source == node) + (hop.link.target == node) for hop in hops.values())
        busy = sum(stage.seconds[node] for stage in stages) + end_seconds.get(node, 0.0) * ends
        memory = sum(stage.memory_bytes for stage in stages)
        if stages or busy:  # the source's node may be busy with hops alone
            yield CutLoad(node, tuple(stage.name for stage in stages), busy, memory)


def _stages_on(problem: CutProblem, assignment: Sequence[str], node: str) -> list[CutStage]:
    return [stage for stage, each in zip(problem.stages, assignment, strict=True) if each == node]


def _busiest(loads: Iterable[CutLoad], hops: Iterable[CutHop]) -> tuple[float, str]:
    """Return the period and its cause; of equal ones a node, and of those the first that frames reach."""
    on_link: dict[str, float] = {}
    for hop in hops:
        on_link[hop.link.name] = on_link.get(hop.link.name, 0.0) + hop.transfer_s
    busy = [*((load.busy_s, load.node) for load in loads), *((busy, name) for name, busy in on_link.items())]
    return max(busy, key=lambda each: each[0])


def _latency(problem: CutProblem, assignment: Sequence[str], hops: Mapping[CutEdge, CutHop]) -> float:
    """Return the time of a frame along the longest path; branches on one node do not wait for each other."""
    done, edges = {SOURCE: 0.0}, problem.all_edges
    for index, stage in enumerate(problem.stages):
        arrived = 0.0
        for edge in edges:
            if edge.behind == index:
                hop = hops.get(edge)
                on_way = hop.transfer_s + hop.link.delay_s + problem.hop_s if hop else 0.0
                arrived = max(arrived, done[edge.before] + on_way)
        done[index] = arrived + stage.seconds[assignment[index]]
    back = [hop for edge, hop in hops.items() if edge.behind == len(problem.stages)]
    on_way = sum(hop.transfer_s + hop.link.delay_s + problem.hop_s for hop in back)
    return max(done.values()) + on_way
