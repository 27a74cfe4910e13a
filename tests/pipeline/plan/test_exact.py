"""Plans of random chains equal those of an exhaustive search and a MILP; `make bench-cut` tries all 500."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from fairlead.pipeline.plan.chain import plan_chain
from fairlead.pipeline.plan.cut import CutPlan, CutSink
from fairlead.pipeline.plan.milp import MilpSettings, plan_graph
from fairlead.pipeline.plan.solve import Objective, Solver, plan_cut
from tests.pipeline.plan.exhaustive import Document, best, fastest, plans, random_problem
from tests.pipeline.plan.problems import problem_of

SEEDS = range(60)
EXACT = MilpSettings(contiguous=True, gap=0.0)


def same(plan: CutPlan | None, expected: tuple[float, float] | None) -> bool:
    """Return whether a plan has the smallest period and latency, and none where none fits."""
    if plan is None or expected is None:
        return plan is None and expected is None
    return (plan.period_s, plan.latency_s) == pytest.approx(expected, rel=2e-9, abs=0)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_plan_is_the_best_of_all(seed: int) -> None:
    document = random_problem(seed)
    plan = plan_chain(problem_of(document))
    assert same(plan, best(document))
    if plan is not None:
        (own,) = [each for each in plans(document) if each[2] == plan.assignment]
        assert (plan.period_s, plan.latency_s) == pytest.approx(own[:2], rel=1e-12, abs=0)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_milp_with_contiguity_finds_the_same(seed: int) -> None:
    pytest.importorskip("highspy", reason="HiGHS, the extra pipeline-plan, is not installed")
    problem = problem_of(random_problem(seed))
    plan, exact = plan_graph(problem, EXACT), plan_chain(problem)
    assert same(plan, None if exact is None else (exact.period_s, exact.latency_s))


@pytest.mark.parametrize("seed", range(100, 115))
def test_hops_that_take_time_are_counted_by_both_solvers(seed: int) -> None:
    document = {**random_problem(seed, 6, 3), "max_latency_s": None}
    problem = replace(problem_of(document), hop_s=0.02)
    slow = {node.name: 1.0 + 3 * (number % 2) for number, node in enumerate(problem.nodes)}
    problem = replace(problem, nodes=tuple(replace(node, slowness=slow[node.name]) for node in problem.nodes))
    expected = best({**document, "hop_s": 0.02, "slowness": slow})
    assert same(plan_chain(problem), expected)
    pytest.importorskip("highspy", reason="HiGHS, the extra pipeline-plan, is not installed")
    assert same(plan_graph(problem, EXACT), expected)


@pytest.mark.parametrize("seed", range(200, 230))
def test_results_travel_to_the_sink(seed: int) -> None:
    document = random_problem(seed, 5, 3)
    node = document["source"] if seed % 2 else document["nodes"][-1]["name"]
    document |= {"sink": {"node": node, "bytes": seed * 1e4}, "hop_s": 0.01 * (seed % 3)}
    problem = replace(
        problem_of({key: document[key] for key in document if key not in ("sink", "hop_s")}),
        sink=CutSink("log", node, seed * 1e4),
        hop_s=document["hop_s"],
    )
    plan = plan_chain(problem)
    assert same(plan, best(document))
    if plan is not None:
        (own,) = [each for each in plans(document) if each[2] == plan.assignment]
        assert (plan.period_s, plan.latency_s) == pytest.approx(own[:2], rel=1e-12, abs=0)


def test_the_way_to_the_sink_decides_some_of_these_instances() -> None:
    instances = [random_problem(seed, 5, 3) for seed in range(200, 230)]
    changed = [
        each
        for each in instances
        if best(each) != best({**each, "sink": {"node": each["source"], "bytes": 2e7}})
    ]
    assert len(changed) > 5


@pytest.mark.parametrize("seed", range(300, 330))
def test_the_objective_latency_finds_the_fastest_plan(seed: int) -> None:
    document = random_problem(seed, 6, 3)
    outcome = plan_cut(problem_of(document), Solver.DP, Objective.LATENCY)
    plan = outcome if isinstance(outcome, CutPlan) else None
    assert same(plan, fastest(document))
    pytest.importorskip("highspy", reason="HiGHS, the extra pipeline-plan, is not installed")
    outcome = plan_cut(problem_of(document), Solver.MILP, Objective.LATENCY)
    assert same(outcome if isinstance(outcome, CutPlan) else None, fastest(document))


def test_the_objective_decides_some_of_these_instances() -> None:
    instances = [random_problem(seed, 6, 3) for seed in range(300, 330)]
    assert sum(best(each) != fastest(each) for each in instances) > 5


RELAXED: dict[str, Callable[[Document], Document]] = {
    "memory": lambda each: {**each, "nodes": [{**node, "memory_bytes": 1e9} for node in each["nodes"]]},
    "latency": lambda each: {**each, "max_latency_s": None},
    "links": lambda each: {
        **each,
        "links": [
            {"from": one["name"], "to": two["name"], "bytes_per_s": 1e12, "delay_s": 0}
            for one in each["nodes"]
            for two in each["nodes"]
        ],
    },
}


@pytest.mark.parametrize("what", RELAXED)
def test_the_instances_are_decided_by_what_they_limit(what: str) -> None:
    instances = [random_problem(seed) for seed in SEEDS]
    changed = [each for each in instances if best(RELAXED[what](each)) != best(each)]
    assert len(changed) >= 10


def test_the_instances_have_every_kind() -> None:
    instances = [random_problem(seed) for seed in SEEDS]
    assert sum(best(each) is None for each in instances) >= 5
    assert any(len(each["nodes"]) == 1 for each in instances)
    assert any(len(each["stages"]) == 1 for each in instances)
    assert any(all(each["source"] not in stage["seconds"] for stage in each["stages"]) for each in instances)
    ties = [each for each in instances if (top := best(each)) and [p[:2] for p in plans(each)].count(top) > 1]
    assert len(ties) >= 3
