"""Why no plan fits a chain, and what would help: the nearest plan, with what it lacks. Pure."""

import math
from collections.abc import Iterator
from dataclasses import replace
from decimal import ROUND_CEILING, Decimal
from itertools import pairwise
from typing import Final

import numpy as np

from fairlead.pipeline.plan.chain import fastest_chain
from fairlead.pipeline.plan.cut import CutLink, CutProblem, CutRefusal, CutStage, describe_runs
from fairlead.pipeline.plan.evaluate import format_amounts
from fairlead.pipeline.plan.layers import Path, PathCosts, Run, cheapest_path, is_searchable
from fairlead.units import pluralize

_LINK: Final = 1.01
"""A missing link against a node that lacks memory: of two equal ways out, memory is named."""
_SECONDS: Final = 100.0
"""A stage on a node that cannot run it: named only where no memory and no link would help."""


def why_no_chain(problem: CutProblem) -> CutRefusal:
    """Return why no plan fits a chain."""
    return impossible_stages(problem) or _too_slow(problem) or _nearest(problem)


def impossible_stages(problem: CutProblem) -> CutRefusal | None:
    """Return the refusal of the stages that no node can run; None where each has a node."""
    reasons = []
    for stage in problem.stages:
        faults = [_node_fault(problem, stage, index) for index in range(len(problem.nodes))]
        if all(faults):
            reasons.append(f"no node can run stage {stage.name}: {'; '.join(filter(None, faults))}")
    if not reasons:
        return None
    more = f" (and {pluralize(len(reasons) - 1, 'more such stage')})" if len(reasons) > 1 else ""
    return CutRefusal(f"{reasons[0]}{more}", "give a node to its seconds, or more memory to a node")


def _node_fault(problem: CutProblem, stage: CutStage, index: int) -> str:
    node = problem.nodes[index]
    if node.name not in stage.seconds:
        return f"{node.name} is missing from its seconds"
    if stage.memory_bytes > node.memory_bytes:
        has, needs = format_amounts(node.memory_bytes, stage.memory_bytes)
        return f"{node.name} has {has} of memory, and the stage needs {needs}"
    return ""


def _too_slow(problem: CutProblem) -> CutRefusal | None:
    if problem.max_latency_s is None:
        return None
    fastest = fastest_chain(replace(problem, max_latency_s=None))
    return None if fastest is None else latency_refusal(problem, fastest.latency_s, fastest.assignment)


def latency_refusal(problem: CutProblem, least: float, assignment: tuple[str, ...]) -> CutRefusal:
    """Return the refusal where the smallest latency is above the limit."""
    return CutRefusal(
        f"no plan keeps max_latency_s {problem.max_latency_s:.6g}: the smallest possible latency is "
        f"{least:.6g} s ({describe_runs(problem, assignment)})",
        f"write max_latency_s {round_up(least)} or more",
    )


def round_up(number: float) -> str:
    """Return a number with six digits that is not below it."""
    exact = Decimal(repr(number))
    digits = Decimal(1).scaleb(exact.adjusted() - 5) if exact else Decimal(1)
    return format(exact.quantize(digits, ROUND_CEILING).normalize(), "f")


def _nearest(problem: CutProblem) -> CutRefusal:
    """Return what the plan lacks that needs the fewest changes: memory, links, or else nodes for stages."""
    generic = CutRefusal(
        "memory, links and the nodes of the stages allow no plan in which each node holds one run of stages",
        "add memory, links, or nodes to the seconds of stages",
    )
    if not is_searchable((-1,) * len(problem.nodes), len(problem.stages)):
        return generic
    path = cheapest_path(_change_costs(problem))
    assert path is not None, "every step has a cost"
    assignment = tuple(problem.nodes[run.node].name for run in path.runs for _ in range(run.begin, run.end))
    lacks = list(_changes(problem, path))
    if not lacks:
        return generic
    return CutRefusal(
        f"no plan fits; the nearest is {describe_runs(problem, assignment)}, but {'; '.join(lacks)}",
        "each node holds one run of neighbouring stages, and frames are not relayed; change what is named",
    )


def _change_costs(problem: CutProblem) -> PathCosts:
    """Return what each step lacks, as a cost."""
    names, count = [node.name for node in problem.nodes], len(problem.stages)
    links = problem.links_by_ends()
    first = np.array([_link_cost(links, problem.source, name) for name in names])
    hop = np.array([[[_link_cost(links, one, two)] * count for two in names] for one in names])
    run = np.full((len(names), count, count + 1), math.inf)
    for node in range(len(names)):
        for begin in range(count):
            for end in range(begin + 1, count + 1):
                run[node, begin, end] = _run_cost(problem, Run(node, begin, end))
        if problem.sink is not None:
            run[node, :, count] += _link_cost(links, names[node], problem.sink.node)
    return PathCosts(first, hop, run, (-1,) * len(names))


def _link_cost(links: dict[tuple[str, str], CutLink], one: str, two: str) -> float:
    return 0.0 if one == two or (one, two) in links else _LINK


def _run_cost(problem: CutProblem, run: Run) -> float:
    node, stages = problem.nodes[run.node], problem.stages[run.begin : run.end]
    missing = sum(node.name not in stage.seconds for stage in stages)
    needed = sum(stage.memory_bytes for stage in stages)
    # Of plans that lack memory once, the one that lacks the least of it.
    short = 1 + (needed - node.memory_bytes) / needed / 1000 if needed > node.memory_bytes else 0.0
    return _SECONDS * missing + short


def _changes(problem: CutProblem, path: Path) -> Iterator[str]:
    """Yield what a path lacks."""
    links = problem.links_by_ends()
    names = [node.name for node in problem.nodes]
    steps = [(problem.source, path.runs[0])]
    steps += [(names[one.node], two) for one, two in pairwise(path.runs)]
    for before, run in steps:
        node, stages = problem.nodes[run.node], problem.stages[run.begin : run.end]
        if _link_cost(links, before, node.name):
            yield f"there is no link {before}->{node.name} for the frames into {stages[0].name}"
        for stage in stages:
            if node.name not in stage.seconds:
                yield f"{node.name} is missing from the seconds of {stage.name}"
        needed = sum(stage.memory_bytes for stage in stages)
        if needed > node.memory_bytes:
            has, needs = format_amounts(node.memory_bytes, needed)
            yield f"{node.name} has {has} of memory, and these stages need {needs}"
    last, sink = names[path.runs[-1].node], problem.sink
    if sink is not None and _link_cost(links, last, sink.node):
        yield f"there is no link {last}->{sink.node} for the results into {sink.name}"
