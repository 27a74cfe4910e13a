"""The exact plan of a chain: the smallest period, then the smallest latency. Pure.

The smallest period is the cost of some run or transfer. A bisection over those costs, sorted, asks for each
whether a path without more expensive steps keeps the latency; a last search finds the smallest latency with
the period found.
"""

import math
from itertools import pairwise

import numpy as np

from fairlead.pipeline.plan.cut import SAME, CutPlan, CutProblem
from fairlead.pipeline.plan.evaluate import evaluate
from fairlead.pipeline.plan.layers import Path, PathCosts, cheapest_path
from fairlead.pipeline.plan.tables import ChainTables, Costs, chain_tables


def plan_chain(problem: CutProblem) -> CutPlan | None:
    """Return the plan with the smallest period and, of those, the smallest latency; None where no plan fits.

    Of equal plans it is one with the fewest nodes, and always the same for the same problem.
    """
    tables = chain_tables(problem)
    path = _best_path(tables, math.inf if problem.max_latency_s is None else problem.max_latency_s)
    return None if path is None else plan_of(problem, tables, path)


def fastest_chain(problem: CutProblem) -> CutPlan | None:
    """Return the plan with the smallest latency, whatever its period; None where no plan fits."""
    tables = chain_tables(problem)
    path = cheapest_path(latency_costs(tables))
    return None if path is None else plan_of(problem, tables, path)


def plan_of(problem: CutProblem, tables: ChainTables, path: Path) -> CutPlan:
    """Return the plan of a path."""
    assignment = [tables.nodes[run.node] for run in path.runs for _ in range(run.begin, run.end)]
    plan = evaluate(problem, assignment)
    assert isinstance(plan, CutPlan), plan
    return plan


def latency_costs(tables: ChainTables) -> PathCosts:
    """Return what each step adds to the latency."""
    hop = tables.transfer + tables.delay[:, :, None]
    return PathCosts(tables.first + tables.first_delay, hop, tables.work, tables.twins)


def _best_path(tables: ChainTables, latency: float) -> Path | None:
    costs = latency_costs(tables)
    steps = (tables.first, tables.transfer, tables.busy)
    path = cheapest_path(costs, latency, any_path=True)
    if path is None:
        return None
    periods = _candidates(tables)
    low, high = 0, int(np.searchsorted(periods, _period(tables, path)))
    while low < high:
        middle = (low + high) // 2
        path = cheapest_path(costs.limited(*steps, periods[middle]), latency, any_path=True)
        if path is None:
            low = middle + 1
        else:
            high = int(np.searchsorted(periods, _period(tables, path)))
    return cheapest_path(costs.limited(*steps, periods[high] * (1 + SAME)), latency)


def _candidates(tables: ChainTables) -> Costs:
    """Return every period that a plan can have, sorted: none is below the least seconds of any stage.

    Hops do not count for that: a stage by itself has more of them than in a run with others. Nor does the
    last stage, whose seconds hold the way to the sink.
    """
    seconds = [float(tables.work[:, stage, stage + 1].min()) for stage in range(tables.stages - 1)]
    least = max(seconds, default=0.0)
    periods = np.concatenate([each.ravel() for each in (tables.first, tables.transfer, tables.busy)])
    return np.unique(periods[(periods >= least) & (periods < math.inf)])


def _period(tables: ChainTables, path: Path) -> float:
    runs = path.runs
    first = [float(tables.first[runs[0].node])]
    hops = [float(tables.transfer[one.node, two.node, two.begin]) for one, two in pairwise(runs)]
    return max(first + hops + [float(tables.busy[run]) for run in runs])
