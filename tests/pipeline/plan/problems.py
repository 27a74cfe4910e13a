"""Small problems for the tests of the planner."""

import json
from typing import Any

from fairlead.pipeline.plan.cut import CutPlan, CutProblem, CutRefusal
from fairlead.pipeline.plan.problem_file import parse_problem
from fairlead.pipeline.plan.solve import Solver, plan_cut


def problem_of(document: dict[str, Any]) -> CutProblem:
    """Return the problem of a document, as the command reads it."""
    return parse_problem(json.dumps(document).encode(), "problem")


def link(source: str, target: str, rate: float = 1000.0, delay: float = 0.0) -> dict[str, Any]:
    """Return a link; 1,000 bytes take a second."""
    return {"from": source, "to": target, "bytes_per_s": rate, "delay_s": delay}


def stage(name: str, size: float = 0, memory: float = 0, **seconds: float) -> dict[str, Any]:
    """Return a stage: the bytes of its input, its memory, and its seconds by node."""
    return {"name": name, "memory_bytes": memory, "input_bytes": size, "seconds": seconds}


def problem(
    stages: list[dict[str, Any]],
    links: list[dict[str, Any]],
    limit: float | None = None,
    source: str = "a",
    **memory: float,
) -> dict[str, Any]:
    """Return a problem with the nodes a, b and c, of 100 bytes each unless said otherwise."""
    amounts = {**dict.fromkeys("abc", 100), **memory}
    return {
        "source": source,
        "nodes": [{"name": name, "memory_bytes": amount} for name, amount in amounts.items()],
        "links": links,
        "stages": stages,
        "max_latency_s": limit,
    }


def plan(document: dict[str, Any], solver: Solver = Solver.DP) -> CutPlan:
    """Return the plan of a document that has one."""
    outcome = plan_cut(problem_of(document), solver)
    assert isinstance(outcome, CutPlan), outcome
    return outcome


def refusal(document: dict[str, Any]) -> CutRefusal:
    """Return why a document has no plan."""
    outcome = plan_cut(problem_of(document), Solver.DP)
    assert isinstance(outcome, CutRefusal), outcome
    return outcome
