"""The plan of a graph, or of a chain whose nodes may hold several runs: a MILP, solved by HiGHS.

Columns: the period, the latency, x[stage, node] (0 or 1), y[edge, node, node] (the edge goes from one to the
other), the time when each stage is done and, with contiguity, where the run of a node begins. Rows: each
stage has one node; y agrees with x at both ends; busy time of nodes and transfers of links (those of one link
add up) are within the period; memory; the longest path is within the latency. The first solution has the
smallest period, the second the smallest latency with it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from fairlead.pipeline.plan.cut import SAME, SOURCE, CutEdge, CutLink, CutPlan, CutProblem
from fairlead.pipeline.plan.evaluate import evaluate
from fairlead.pipeline.plan.highs import LinearProgram, LinearSolution, minimize

GAP: Final = 0.01
"""The search for a graph ends when the period is within this part of the smallest."""
MOST_S: Final = 60.0
_PERIOD: Final = 0
_LATENCY: Final = 1


@dataclass(frozen=True, slots=True)
class MilpSettings:
    """How a MILP is solved."""

    contiguous: bool = False
    """Of a chain: each node holds at most one run of stages."""
    gap: float = GAP
    most_s: float = MOST_S
    """For each of its two searches."""
    start: tuple[str, ...] = ()
    """A known plan to begin with: the node of each stage."""


@dataclass(slots=True)
class _Model:
    program: LinearProgram
    x: list[dict[str, int]]
    """By stage: the column of each node that can run it."""
    scale: float
    """Seconds that are 1 in the program."""
    load: dict[tuple[str, ...], dict[int, float]] = field(default_factory=dict)
    """By node, or by the two nodes of a link: what each column adds to its busy time."""


def plan_graph(problem: CutProblem, settings: MilpSettings) -> CutPlan | None:
    """Return the plan with the smallest period, then latency, up to the gap; None where no plan fits."""
    return _plan(problem, settings, (_PERIOD, _LATENCY))


def fastest_graph(problem: CutProblem, settings: MilpSettings) -> CutPlan | None:
    """Return the plan with the smallest latency, whatever its period; None where no plan fits."""
    return _plan(problem, settings, (_LATENCY,))


def _plan(problem: CutProblem, settings: MilpSettings, columns: tuple[int, ...]) -> CutPlan | None:
    covers: list[tuple[str, list[int]]] = []
    while True:
        model = _build(problem, settings.contiguous, covers)
        plan: CutPlan | None = None
        gap, over = 0.0, list[tuple[str, list[int]]]()
        for column in columns if all(model.x) else ():
            solution = _search(model, column, plan.assignment if plan else settings.start, settings)
            if solution is None:
                break  # a second search has at least the plan of the first
            plan, over = _rounded(problem, model, solution)
            if plan is None:
                break
            gap = max(gap, solution.gap if column == columns[0] else 0.0)
            model.program.upper[_PERIOD] = plan.period_s / model.scale * (1 + SAME)
        if not over:
            return None if plan is None else replace(plan, gap=gap if gap > SAME else 0.0)
        covers += over


def _search(
    model: _Model, column: int, start: tuple[str, ...], settings: MilpSettings
) -> LinearSolution | None:
    values = {
        number: float(node == name)
        for columns, name in zip(model.x, start, strict=False)
        for node, number in columns.items()
    }
    return minimize(model.program, column, settings.gap, values, settings.most_s)


def _rounded(
    problem: CutProblem, model: _Model, solution: LinearSolution
) -> tuple[CutPlan | None, list[tuple[str, list[int]]]]:
    """Return the plan of a solution, or the stages that exceed the memory of a node by a rounding error."""
    assignment = [max(columns, key=lambda node: solution.values[columns[node]]) for columns in model.x]
    over = []
    for node in problem.nodes:
        held = [index for index, name in enumerate(assignment) if name == node.name]
        if sum(problem.stages[index].memory_bytes for index in held) > node.memory_bytes:
            over.append((node.name, held))
    if over:
        return None, over
    plan = evaluate(replace(problem, max_latency_s=None), assignment)
    assert isinstance(plan, CutPlan), plan
    return plan, []


def _build(problem: CutProblem, contiguous: bool, covers: Sequence[tuple[str, list[int]]]) -> _Model:
    program = LinearProgram()
    least = [min(stage.seconds.values(), default=0.0) for stage in problem.stages]
    scale = max(least, default=0.0) or sum(
        max(stage.seconds.values(), default=0.0) for stage in problem.stages
    )
    limit = math.inf if problem.max_latency_s is None else problem.max_latency_s
    model = _Model(program, [], scale or 1.0)
    for upper in (math.inf, limit / model.scale * (1 + SAME)):
        program.column(upper)
    _place_stages(problem, model)
    _limit_memory(problem, model, covers)
    _route(problem, model)
    for terms in model.load.values():
        program.row({**{column: -value for column, value in terms.items()}, _PERIOD: 1.0}, 0.0)
    if contiguous:
        _hold_runs(problem, model)
    return model


def _place_stages(problem: CutProblem, model: _Model) -> None:
    for stage in problem.stages:
        nodes = [
            node.name
            for node in problem.nodes
            if node.name in stage.seconds and stage.memory_bytes <= node.memory_bytes
        ]
        columns = {node: model.program.column(1.0, integer=True) for node in nodes}
        model.x.append(columns)
        model.program.row(dict.fromkeys(columns.values(), 1.0), 1.0, 1.0)
        for node, column in columns.items():
            model.load.setdefault((node,), {})[column] = stage.seconds[node] / model.scale


def _limit_memory(problem: CutProblem, model: _Model, covers: Sequence[tuple[str, list[int]]]) -> None:
    for node in problem.nodes:
        terms = {
            columns[node.name]: stage.memory_bytes / node.memory_bytes
            for stage, columns in zip(problem.stages, model.x, strict=True)
            if node.name in columns and stage.memory_bytes > 0
        }
        model.program.row(terms, high=1.0)
    for name, held in covers:
        model.program.row({model.x[index][name]: 1.0 for index in held}, high=len(held) - 1.0)


def _route(problem: CutProblem, model: _Model) -> None:
    """Add transfers and the time when each stage is done."""
    program, links = model.program, problem.links_by_ends()
    done = [program.column() for _ in problem.stages]
    for index, stage in enumerate(problem.stages):
        program.row({_LATENCY: 1.0, done[index]: -1.0}, 0.0)
        own = {column: -stage.seconds[node] / model.scale for node, column in model.x[index].items()}
        program.row({done[index]: 1.0, **own}, 0.0)
        for edge in problem.all_edges:
            if edge.behind != index:
                continue
            late = dict(own)
            ends = _source_ends(problem, model, edge) if edge.before == SOURCE else _ends(model, edge, links)
            for (one, two), column in ends.items():
                if one != two:
                    link = links.get((one, two))
                    seconds = edge.bytes / link.bytes_per_s if link else math.inf
                    if link is None or not math.isfinite(seconds):
                        program.upper[column] = 0.0
                        continue
                    _add_hop(problem, model, link, column, seconds)
                    on_way = seconds + link.delay_s + problem.hop_s
                    late[column] = late.get(column, 0.0) - on_way / model.scale
            before = {} if edge.before == SOURCE else {done[edge.before]: -1.0}
            program.row({done[index]: 1.0, **before, **late}, 0.0)


def _source_ends(problem: CutProblem, model: _Model, edge: CutEdge) -> dict[tuple[str, str], int]:
    return {(problem.source, node): column for node, column in model.x[edge.behind].items()}


def _ends(model: _Model, edge: CutEdge, links: dict[tuple[str, str], CutLink]) -> dict[tuple[str, str], int]:
    """Return a column for each pair of nodes that an edge can have; rows make them agree with the stages."""
    before, behind = model.x[edge.before], model.x[edge.behind]
    pairs = [(one, two) for one in before for two in behind if one == two or (one, two) in links]
    ends = {pair: model.program.column(1.0) for pair in pairs}
    for place, stage in enumerate((before, behind)):
        for node, column in stage.items():
            terms = {end: 1.0 for pair, end in ends.items() if pair[place] == node}
            model.program.row({**terms, column: -1.0}, 0.0, 0.0)
    return ends


def _add_hop(problem: CutProblem, model: _Model, link: CutLink, column: int, seconds: float) -> None:
    end_seconds = problem.end_seconds()
    for busy, value in (
        ((link.source, link.target), seconds),
        ((link.source,), end_seconds[link.source]),
        ((link.target,), end_seconds[link.target]),
    ):
        terms = model.load.setdefault(busy, {})
        terms[column] = terms.get(column, 0.0) + value / model.scale


def _hold_runs(problem: CutProblem, model: _Model) -> None:
    """Let each node begin at most one run."""
    for node in problem.nodes:
        begins = []
        for index, columns in enumerate(model.x):
            if node.name in columns:
                begins.append(begin := model.program.column(1.0))
                before = model.x[index - 1].get(node.name) if index else None
                terms = {begin: 1.0, columns[node.name]: -1.0}
                model.program.row({**terms, before: 1.0} if before is not None else terms, 0.0)
        model.program.row(dict.fromkeys(begins, 1.0), high=1.0)
