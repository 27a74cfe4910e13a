"""What the contract says of periods, latencies and plans, case by case."""

import random
from typing import Any

import pytest

from fairlead.pipeline.plan.chain import plan_chain
from fairlead.pipeline.plan.cut import CutProblem
from fairlead.pipeline.plan.layers import count_sets, is_searchable
from fairlead.pipeline.plan.solve import Solver
from fairlead.pipeline.plan.tables import chain_tables
from tests.pipeline.plan.problems import link, plan, problem, problem_of, refusal, stage


@pytest.fixture(params=[Solver.DP, Solver.MILP])
def solver(request: pytest.FixtureRequest) -> Solver:
    """Return each solver: both keep the contract."""
    if request.param is Solver.MILP:
        pytest.importorskip("highspy", reason="HiGHS, the extra pipeline-plan, is not installed")
    return Solver(request.param)


def test_the_input_of_the_first_stage_travels_from_the_source(solver: Solver) -> None:
    answer = plan(problem([stage("s", 500, b=2.0)], [link("a", "b", delay=0.25)]), solver)
    assert (answer.assignment, answer.period_s, answer.latency_s) == (("b",), 2.0, 2.75)
    answer = plan(problem([stage("s", 3000, b=2.0)], [link("a", "b", delay=0.25)]), solver)
    assert (answer.period_s, answer.latency_s, answer.bottleneck) == (3.0, 5.25, "a->b")


def test_a_stage_on_the_sources_node_has_no_transfer(solver: Solver) -> None:
    answer = plan(problem([stage("s", 9000, a=2.0, b=1.0)], [link("a", "b")]), solver)
    assert (answer.assignment, answer.period_s, answer.latency_s) == (("a",), 2.0, 2.0)


def test_a_transfer_has_the_bytes_of_the_stage_behind_it(solver: Solver) -> None:
    stages = [stage("s", 100, a=1.0), stage("t", 700, b=0.5), stage("u", 200, b=0.25)]
    answer = plan(problem(stages, [link("a", "b", delay=5)]), solver)
    assert (answer.period_s, answer.latency_s) == pytest.approx((1.0, 1 + 0.7 + 5 + 0.75))
    (hop,) = answer.hops
    assert (hop.link.name, hop.stage, hop.bytes, hop.transfer_s) == ("a->b", "t", 700, 0.7)


def test_a_delay_counts_in_the_latency_alone(solver: Solver) -> None:
    stages = [stage("s", a=1.0), stage("t", b=1.0, a=1.0)]
    answer = plan(problem(stages, [link("a", "b", delay=100)]), solver)
    assert (answer.assignment, answer.period_s, answer.latency_s) == (("a", "b"), 1.0, 102.0)


def test_links_have_a_direction_and_frames_are_not_relayed() -> None:
    stages = [stage("s", a=1.0), stage("t", c=1.0)]
    reason = refusal(problem(stages, [link("c", "a"), link("a", "b"), link("b", "c")])).reason
    assert "no link a->c for the frames into t" in reason


def test_a_node_holds_one_run_of_stages() -> None:
    stages = [stage("s", a=1.0), stage("t", b=1.0), stage("u", a=1.0)]
    reason = refusal(problem(stages, [link("a", "b"), link("b", "a")])).reason
    assert "is missing from the seconds of" in reason


def test_the_sources_node_may_run_a_later_stage(solver: Solver) -> None:
    stages = [stage("s", 100, b=1.0), stage("t", 200, a=2.0)]
    answer = plan(problem(stages, [link("a", "b"), link("b", "a")]), solver)
    assert answer.assignment == ("b", "a")
    assert answer.latency_s == pytest.approx(3.3)


def test_memory_is_for_all_stages_of_a_run(solver: Solver) -> None:
    stages = [stage("s", memory=60, a=1.0, b=9.0), stage("t", memory=40, a=1.0, b=9.0)]
    assert plan(problem(stages, [link("a", "b")]), solver).assignment == ("a", "a")
    assert plan(problem(stages, [link("a", "b")], a=99), solver).assignment == ("a", "b")


def test_whole_bytes_are_compared_exactly(solver: Solver) -> None:
    size = 1 << 60
    stages = [stage("s", memory=size, a=1.0, b=5.0), stage("t", memory=1, a=1.0, b=5.0)]
    assert plan(problem(stages, [link("a", "b")], a=size + 1, b=size), solver).assignment == ("a", "a")
    assert plan(problem(stages, [link("a", "b")], a=size, b=size), solver).assignment == ("a", "b")


def test_the_latency_limit_is_inclusive_whatever_the_order_of_its_terms(solver: Solver) -> None:
    stages = [stage("s", a=0.1), stage("t", a=0.2), stage("u", a=0.3)]
    for limit in (0.6, 0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1):
        assert plan(problem(stages, [], limit), solver).latency_s == pytest.approx(0.6)
    assert "smallest possible latency is 0.6 s" in refusal(problem(stages, [], 0.5999999)).reason


def test_a_limit_gives_up_a_smaller_period(solver: Solver) -> None:
    stages = [stage("s", a=1.0, b=1.0), stage("t", a=1.0, b=1.0)]
    links = [link("a", "b", delay=3.0)]
    assert plan(problem(stages, links, 5.0), solver).assignment == ("a", "b")
    assert plan(problem(stages, links, 4.9), solver).assignment == ("a", "a")


def test_of_plans_with_the_smallest_period_the_latency_is_the_smallest(solver: Solver) -> None:
    """The stage that takes longest sets the period; the other may be on a slow node or a fast one."""
    stages = [stage("s", a=1.0), stage("t", 10, b=4.0, c=4.0), stage("u", 10, b=9.0, c=3.0, a=9.0)]
    links = [link("a", "b"), link("a", "c"), link("b", "c", delay=1), link("c", "b")]
    answer = plan(problem(stages, links), solver)
    assert (answer.assignment, answer.period_s) == (("a", "b", "c"), 4.0)
    stages[2]["seconds"]["b"] = 3.5
    assert plan(problem(stages, links), solver).latency_s == pytest.approx(8.52)


def test_more_nodes_may_have_the_smaller_latency_with_the_same_period(solver: Solver) -> None:
    stages = [stage("s", a=4.0), stage("t", b=2.0), stage("u", b=2.0, c=0.5)]
    answer = plan(problem(stages, [link("a", "b"), link("b", "c")]), solver)
    assert (answer.assignment, answer.period_s, answer.latency_s) == (("a", "b", "c"), 4.0, 6.5)
    answer = plan(problem(stages, [link("a", "b"), link("b", "c", delay=1.49)]), solver)
    assert (answer.assignment, answer.period_s, answer.latency_s) == (("a", "b", "c"), 4.0, 7.99)
    answer = plan(problem(stages, [link("a", "b"), link("b", "c", delay=1.6)]), solver)
    assert (answer.assignment, answer.period_s, answer.latency_s) == (("a", "b", "b"), 4.0, 8.0)


def test_periods_that_differ_by_rounding_are_equal(solver: Solver) -> None:
    """a takes 0.1 + 0.2, a little more than the 0.3 of b, and has no hop."""
    stages = [stage("s", 10, a=0.1, b=0.15), stage("t", 10, a=0.2, b=0.15)]
    answer = plan(problem(stages, [link("a", "b", delay=1), link("b", "a", delay=1)]), solver)
    assert answer.assignment == ("a", "b")  # 0.15 is smaller still
    stages = [stage("s", 10, a=0.1, b=0.3), stage("t", 10, a=0.2, b=0.0)]
    answer = plan(problem(stages, [link("a", "b", delay=1)], c=0), solver)
    assert (answer.assignment, answer.period_s) == (("a", "b"), 0.1)
    stages = [stage("s", 10, a=0.1, b=0.3), stage("t", 10, a=0.2, b=0.0)]
    document = problem(stages, [link("a", "b", rate=10 / 0.3, delay=1)])
    assert plan(document, solver).assignment == ("a", "a")


def test_of_equal_plans_the_one_with_fewer_nodes_is_taken_and_always_the_same() -> None:
    stages = [stage("s", a=0.0, b=0.0, c=0.0), stage("t", a=0.0, b=0.0, c=0.0)]
    links = [link(one, two) for one in "abc" for two in "abc" if one != two]
    answers = {plan(problem(stages, links)) for _ in range(3)}
    (answer,) = answers
    assert (answer.assignment, answer.period_s, answer.bottleneck) == (("a", "a"), 0.0, "a")


def test_bottlenecks_that_are_equal_name_the_node() -> None:
    stages = [stage("s", 1000, b=1.0), stage("t", 1000, c=1.0)]
    assert plan(problem(stages, [link("a", "b"), link("b", "c")])).bottleneck == "b"


def _equal_nodes(count: int) -> CutProblem:
    names = [f"n{index}" for index in range(count)]
    document: dict[str, Any] = {
        "source": "n0",
        "nodes": [{"name": name, "memory_bytes": 10} for name in names],
        "links": [link(one, two) for one in names for two in names if one != two],
        "stages": [stage(f"s{index}", 10, 1, **dict.fromkeys(names, 1.0)) for index in range(12)],
        "max_latency_s": None,
    }
    return problem_of(document)


def test_equal_nodes_are_tried_once() -> None:
    tables = chain_tables(_equal_nodes(40))
    assert count_sets(tables.twins, tables.stages) < 40
    different = chain_tables(problem_of(problem([stage("s", a=1.0, b=2.0, c=3.0)] * 1, [])))
    assert count_sets(different.twins, 3) == 8


def test_sixteen_different_nodes_are_searched_exactly_and_seventeen_are_not() -> None:
    different = (-1,) * 16
    assert is_searchable(different, 24)
    assert not is_searchable((*different, -1), 24)
    assert is_searchable((-1,) * 60, 3)  # three stages use three nodes at most
    assert is_searchable((-1,) * 12, 100)
    assert not is_searchable((-1,) * 13, 100)
    assert is_searchable((-1,) * 250, 2)
    assert not is_searchable((-1,) * 350, 2)
    assert is_searchable((*different, 15, 16, 17), 5)


def test_forty_equal_nodes_share_the_stages() -> None:
    answer = plan_chain(_equal_nodes(40))
    assert answer is not None
    assert answer.period_s == 1.0
    assert len(set(answer.assignment)) == 12


def _smallest_largest_sum(costs: list[float], parts: int) -> float:
    """Return the smallest possible largest sum of at most so many runs."""
    sums = [sum(costs[:end]) for end in range(len(costs) + 1)]
    best = sums
    for _ in range(1, parts):
        best = [
            min(max(best[begin], sums[end] - sums[begin]) for begin in range(end + 1))
            for end in range(len(sums))
        ]
    return best[-1]


@pytest.mark.parametrize("nodes", [2, 5, 9])
def test_many_stages_on_nodes_with_fast_links_are_balanced(nodes: int) -> None:
    """Without transfers the period is that of the best split; delays make the nodes different."""
    rng = random.Random(nodes)
    names = [f"n{index}" for index in range(nodes)]
    costs = [rng.randint(1, 1000) / 1024 for _ in range(40)]
    document = {
        "source": "n0",
        "nodes": [{"name": name, "memory_bytes": 0} for name in names],
        "links": [link(one, two, 1.0, 1e-6 * at) for at, one in enumerate(names) for two in names],
        "stages": [stage(f"s{at}", **dict.fromkeys(names, cost)) for at, cost in enumerate(costs)],
        "max_latency_s": None,
    }
    assert set(chain_tables(problem_of(document)).twins) == {-1}
    assert plan(document).period_s == pytest.approx(_smallest_largest_sum(costs, nodes), rel=1e-12)
