"""Graphs: fan-out, joins and nodes with several runs, held against every assignment tried one by one."""

import random
from dataclasses import replace
from itertools import product

import pytest

from fairlead.pipeline.plan.cut import SOURCE, CutEdge, CutLink, CutNode, CutPlan, CutProblem, CutStage
from fairlead.pipeline.plan.milp import MilpSettings, plan_graph
from fairlead.pipeline.plan.solve import Solver, plan_cut, plan_freely
from tests.pipeline.plan.exhaustive import best, random_problem
from tests.pipeline.plan.problems import problem_of

pytest.importorskip("highspy", reason="HiGHS, the extra pipeline-plan, is not installed")
EXACT = MilpSettings(gap=0.0)


def random_graph(seed: int) -> CutProblem:
    """Return a graph of 5 stages on 3 nodes."""
    rng = random.Random(seed)
    names = ("a", "b", "c")
    edges = [CutEdge(SOURCE, 0, rng.uniform(0, 2e5))]
    for behind in range(1, 5):
        for before in sorted(rng.sample(range(SOURCE, behind), rng.randint(1, min(2, behind)))):
            edges.append(CutEdge(before, behind, rng.uniform(0, 2e5)))
    return CutProblem(
        "a",
        tuple(CutNode(name, rng.randint(4, 12)) for name in names),
        tuple(
            CutLink(one, two, rng.uniform(2e6, 2e7), rng.uniform(0, 0.01))
            for one in names
            for two in names
            if one != two and rng.random() < 0.9
        ),
        tuple(
            CutStage(f"s{index}", rng.randint(0, 4), 0, {name: rng.uniform(0.001, 0.05) for name in names})
            for index in range(5)
        ),
        rng.uniform(0.05, 0.2) if seed % 2 else None,
        tuple(edges),
        0.005 if seed % 3 == 0 else 0.0,
    )


def every_plan(problem: CutProblem) -> list[tuple[float, float]]:
    """Return period and latency of every assignment that fits."""
    return [
        times
        for nodes in product([node.name for node in problem.nodes], repeat=len(problem.stages))
        if (times := _times(problem, nodes)) is not None
    ]


def _times(problem: CutProblem, nodes: tuple[str, ...]) -> tuple[float, float] | None:
    links = {(link.source, link.target): link for link in problem.links}
    busy: dict[object, float] = {}
    ready = [0.0] * len(nodes)
    done: list[float] = []
    for index, stage in enumerate(problem.stages):
        for edge in problem.edges or ():
            if edge.behind == index:
                one, two = problem.source if edge.before == SOURCE else nodes[edge.before], nodes[index]
                at = 0.0 if edge.before == SOURCE else done[edge.before]
                if one != two:
                    if (one, two) not in links:
                        return None
                    link = links[one, two]
                    busy[one, two] = busy.get((one, two), 0.0) + edge.bytes / link.bytes_per_s
                    for end in (one, two):
                        busy[end] = busy.get(end, 0.0) + problem.hop_s / 2
                    at += edge.bytes / link.bytes_per_s + link.delay_s + problem.hop_s
                ready[index] = max(ready[index], at)
        done.append(ready[index] + stage.seconds[nodes[index]])
        busy[nodes[index]] = busy.get(nodes[index], 0.0) + stage.seconds[nodes[index]]
    for node in problem.nodes:
        held = [stage for stage, name in zip(problem.stages, nodes, strict=True) if name == node.name]
        if sum(stage.memory_bytes for stage in held) > node.memory_bytes:
            return None
    if problem.max_latency_s is not None and max(done) > problem.max_latency_s * (1 + 1e-9):
        return None
    return max(busy.values()), max(done)


@pytest.mark.parametrize("seed", range(24))
def test_the_plan_of_a_graph_is_the_best_of_all(seed: int) -> None:
    problem = random_graph(seed)
    plan, fitting = plan_graph(problem, EXACT), every_plan(problem)
    if plan is None or not fitting:
        assert plan is None
        assert not fitting
        return
    period = min(each[0] for each in fitting)
    latency = min(each[1] for each in fitting if each[0] <= period * (1 + 1e-9))
    assert (plan.period_s, plan.latency_s) == pytest.approx((period, latency), rel=2e-9)
    assert plan.gap <= 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_a_search_that_ends_at_a_gap_says_how_far_it_may_be_off(seed: int) -> None:
    problem = replace(random_graph(seed), max_latency_s=None)
    plan = plan_graph(problem, MilpSettings(gap=0.5))
    least = min(each[0] for each in every_plan(problem))
    assert plan is not None
    assert 0 <= plan.gap <= 0.5
    assert plan.period_s * (1 - plan.gap) <= least * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(0, 12, 2))
def test_graphs_are_planned_to_one_percent(seed: int) -> None:
    plan = plan_cut(random_graph(seed))
    assert isinstance(plan, CutPlan)
    assert plan.gap <= 0.01
    assert plan.period_s <= min(each[0] for each in every_plan(random_graph(seed))) / 0.99


def test_transfers_on_one_link_add_up() -> None:
    """Two branches go to the other node, over one link, for 0.3 s each; the stages there take 0.1 s."""
    stages = tuple(CutStage(name, 0, 0, {node: 0.1}) for name, node in zip("stu", "abb", strict=True))
    edges = (CutEdge(SOURCE, 0, 0), CutEdge(0, 1, 300), CutEdge(0, 2, 300))
    nodes = (CutNode("a", 1), CutNode("b", 1))
    problem = CutProblem("a", nodes, (CutLink("a", "b", 1000, 0),), stages, None, edges)
    plan = plan_cut(problem)
    assert isinstance(plan, CutPlan)
    assert (plan.period_s, plan.latency_s) == pytest.approx((0.6, 0.5))
    assert plan.bottleneck == "a->b"


@pytest.mark.parametrize("seed", range(8))
def test_nodes_with_several_runs_are_at_least_as_good(seed: int) -> None:
    document = random_problem(seed)
    expected, free = best(document), plan_freely(problem_of(document), EXACT)
    if expected is not None:
        assert free is not None
        assert free.period_s <= expected[0] * (1 + 1e-9)


def test_a_node_with_two_runs_needs_a_graph() -> None:
    """a, b, a: in a chain each node holds one run; a graph may come back."""
    nodes = (CutNode("a", 9), CutNode("b", 9))
    links = (CutLink("a", "b", 1e3, 0), CutLink("b", "a", 1e3, 0))
    stages = tuple(CutStage(name, 1, 10, {node: 1.0}) for name, node in zip("stu", "aba", strict=True))
    problem = CutProblem("a", nodes, links, stages)
    assert plan_graph(problem, MilpSettings(contiguous=True)) is None
    free = plan_freely(problem, EXACT)
    assert free is not None
    assert free.period_s == 2.0


@pytest.mark.parametrize("fault", ["latency", "memory", "stage"])
def test_a_graph_that_no_plan_fits_is_refused_with_a_reason(fault: str) -> None:
    problem = replace(random_graph(0), hop_s=0.0, max_latency_s=None)
    if fault == "latency":
        problem = replace(problem, max_latency_s=1e-6)
    elif fault == "memory":
        problem = replace(problem, nodes=tuple(replace(node, memory_bytes=4) for node in problem.nodes))
        problem = replace(problem, stages=tuple(replace(each, memory_bytes=4) for each in problem.stages))
    else:
        problem = replace(problem, stages=(replace(problem.stages[0], seconds={}), *problem.stages[1:]))
    refused = plan_cut(problem, Solver.AUTO)
    assert not isinstance(refused, CutPlan)
    expected = {"latency": "smallest possible latency is", "memory": "allow no plan", "stage": "run stage s0"}
    assert expected[fault] in refused.reason
    if fault == "latency":
        least = min(each[1] for each in every_plan(replace(problem, max_latency_s=None)))
        assert f"{least:.6g} s" in refused.reason
