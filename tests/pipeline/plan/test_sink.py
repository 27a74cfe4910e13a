"""Results that travel to a sink: what they take decides between plans."""

from dataclasses import replace
from typing import Any

import pytest

from fairlead.pipeline.plan.chain import plan_chain
from fairlead.pipeline.plan.cut import CutPlan, CutProblem, CutRefusal, CutSink
from fairlead.pipeline.plan.evaluate import evaluate
from fairlead.pipeline.plan.solve import plan_cut
from tests.pipeline.plan.problems import link, problem, problem_of, stage

THERE = [link("a", "b"), link("a", "c")]


def to_sink(document: dict[str, Any], size: float = 0, hop_s: float = 0.0) -> CutProblem:
    """Return a problem whose results go to the sink `log` on node a."""
    return replace(problem_of(document), sink=CutSink("log", "a", size), hop_s=hop_s)


@pytest.mark.parametrize(
    ("back", "size", "assignment", "period", "latency"),
    [
        # Of two equal nodes, the one with the shorter way back: by delay, by transfer.
        ([link("b", "a", delay=5.0), link("c", "a", delay=0.5)], 0, ("a", "c"), 2.0, 3.5),
        ([link("b", "a", rate=100.0), link("c", "a", rate=200.0)], 100, ("a", "c"), 2.0, 3.5),
        # A transfer back that takes longer than any node is the period.
        ([link("b", "a", rate=10.0), link("c", "a", rate=20.0)], 100, ("a", "c"), 5.0, 8.0),
        # Without a link back a node cannot be the last.
        ([link("b", "a", delay=9.0)], 0, ("a", "b"), 2.0, 12.0),
    ],
)
def test_the_way_back_counts(
    back: list[dict[str, Any]], size: float, assignment: tuple[str, ...], period: float, latency: float
) -> None:
    chain = problem([stage("s", a=1.0), stage("t", b=2.0, c=2.0)], [*THERE, *back])
    plan = plan_chain(to_sink(chain, size))
    assert plan is not None
    assert plan.assignment == assignment
    assert (plan.period_s, plan.latency_s) == pytest.approx((period, latency))
    assert [(hop.stage, hop.link.name) for hop in plan.hops][-1] == ("log", f"{assignment[-1]}->a")


@pytest.mark.parametrize(("here", "assignment"), [(1.5, ("a", "a")), (2.5, ("a", "b"))])
def test_a_hop_back_keeps_the_node_of_the_sink_busy(here: float, assignment: tuple[str, ...]) -> None:
    chain = problem([stage("s", a=3.0), stage("t", a=here, b=2.0)], [link("a", "b"), link("b", "a")])
    plan = plan_chain(to_sink(chain, hop_s=2.0))  # the split: 3 s, and 1 s for each of two ends on a
    assert plan is not None
    assert plan.assignment == assignment
    assert plan.period_s == pytest.approx(min(3.0 + here, 5.0))


def test_a_missing_way_back_is_named() -> None:
    chain = to_sink(problem([stage("s", b=1.0)], [link("a", "b")]))
    reason = "there is no link b->a for the results into log"
    refusal = plan_cut(chain)
    assert isinstance(refusal, CutRefusal)
    assert reason in refusal.reason
    assert evaluate(chain, ["b"]) == CutRefusal(reason)
    assert isinstance(evaluate(replace(chain, sink=None), ["b"]), CutPlan)


def test_a_slow_way_back_is_worse_than_a_slow_node() -> None:
    links = [*THERE, link("b", "a", rate=20.0), link("c", "a", rate=40.0)]
    plan = plan_chain(to_sink(problem([stage("s", a=1.0), stage("t", b=1.0, c=4.0)], links), size=100))
    assert plan is not None
    assert plan.assignment == ("a", "c")
    assert (plan.period_s, plan.latency_s) == pytest.approx((4.0, 7.5))  # with b 5 s, but a latency of 7 s
