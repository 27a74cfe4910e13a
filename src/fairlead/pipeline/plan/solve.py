"""Which solver plans a problem: the exact search for chains, HiGHS for graphs and for very many nodes."""

from dataclasses import replace

from fairlead.compat import StrEnum
from fairlead.errors import PipelineError
from fairlead.pipeline.plan.chain import fastest_chain, plan_chain
from fairlead.pipeline.plan.cut import CutPlan, CutProblem, CutRefusal, within
from fairlead.pipeline.plan.layers import is_searchable
from fairlead.pipeline.plan.milp import MilpSettings, fastest_graph, plan_graph
from fairlead.pipeline.plan.refusal import impossible_stages, latency_refusal, why_no_chain
from fairlead.pipeline.plan.tables import chain_tables


class Solver(StrEnum):
    """What plans."""

    AUTO = "auto"
    DP = "dp"
    MILP = "milp"


class Objective(StrEnum):
    """What a plan has the best value of; the other decides between equal ones."""

    THROUGHPUT = "throughput"
    LATENCY = "latency"


def plan_cut(
    problem: CutProblem, solver: Solver = Solver.AUTO, objective: Objective = Objective.THROUGHPUT
) -> CutPlan | CutRefusal:
    """Return the plan with the smallest period, then the smallest latency, or why none fits.

    For `Objective.LATENCY` the other way round. In a chain each node holds one run of stages; in a graph any.
    """
    if objective is Objective.LATENCY:
        fastest = _fastest(problem, solver)
        if fastest is not None:  # of all plans that are as fast, the one with the smallest period
            problem = replace(problem, max_latency_s=fastest.latency_s)
    chain = problem.edges is None
    small = chain and is_small(problem)
    if solver is Solver.DP and not small:
        what = f"{len(problem.nodes)} nodes are too many" if chain else "stages that are no chain"
        raise PipelineError(f"--solver dp: {what} for the exact search", "use --solver auto or milp")
    if solver is Solver.DP or (solver is Solver.AUTO and small):
        return plan_chain(problem) or why_no_chain(problem)
    assert problem.sink is None, "a graph has its sinks among its stages"
    settings = MilpSettings(contiguous=True, gap=0.0) if chain else MilpSettings()
    plan = plan_graph(problem, settings)
    if plan is not None:
        return plan
    return why_no_chain(problem) if small else _why_no_graph(problem, settings)


def _fastest(problem: CutProblem, solver: Solver) -> CutPlan | None:
    """Return the plan with the smallest latency within the limit; None where no plan fits."""
    chain, limit = problem.edges is None, problem.max_latency_s
    free = replace(problem, max_latency_s=None)
    if chain and solver is not Solver.MILP and is_small(problem):
        plan = fastest_chain(free)
    else:
        plan = fastest_graph(free, MilpSettings(contiguous=chain, gap=0.0))
    return plan if plan is None or limit is None or within(plan.latency_s, limit) else None


def plan_freely(problem: CutProblem, settings: MilpSettings) -> CutPlan | None:
    """Return the plan of a chain whose nodes may hold several runs; the search begins with the exact plan."""
    chain = plan_chain(problem) if is_small(problem) else None
    return plan_graph(problem, replace(settings, start=chain.assignment) if chain else settings)


def is_small(problem: CutProblem) -> bool:
    """Return whether a chain is small enough for the exact search."""
    tables = chain_tables(problem)
    return is_searchable(tables.twins, tables.stages)


def _why_no_graph(problem: CutProblem, settings: MilpSettings) -> CutRefusal:
    refusal = impossible_stages(problem)
    if refusal is not None:
        return refusal
    if problem.max_latency_s is not None:
        plan = fastest_graph(replace(problem, max_latency_s=None), settings)
        if plan is not None:
            return latency_refusal(problem, plan.latency_s, plan.assignment)
    return CutRefusal(
        "memory, links and the nodes of the stages allow no plan",
        "add memory, links, or nodes to the seconds of stages",
    )
