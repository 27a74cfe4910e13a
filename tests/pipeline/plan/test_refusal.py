"""Where no plan fits, the reason names what is short, and following the hint gives a plan."""

import math
import re

import pytest

from fairlead.pipeline.plan.cut import CutPlan
from fairlead.pipeline.plan.refusal import round_up
from fairlead.pipeline.plan.solve import plan_cut
from tests.pipeline.plan.exhaustive import best, random_problem
from tests.pipeline.plan.problems import link, plan, problem, problem_of, refusal, stage

LINKS = [link("a", "b"), link("b", "c")]


def test_a_stage_without_a_node_is_named_with_the_fault_of_each() -> None:
    reason = refusal(problem([stage("s", a=1.0), stage("t", memory=101, b=1.0)], LINKS)).reason
    assert reason == (
        "no node can run stage t: a is missing from its seconds; b has 100 B of memory, and the stage needs "
        "101 B; c is missing from its seconds"
    )
    reason = refusal(problem([stage("s"), stage("t"), stage("u")], LINKS)).reason
    assert reason.startswith("no node can run stage s: ")
    assert reason.endswith(" (and 2 more such stages)")


def test_amounts_that_look_the_same_are_shown_in_bytes() -> None:
    size = 1 << 30
    reason = refusal(problem([stage("s", memory=size + 1, a=1.0)], [], a=size)).reason
    assert "a has 1,073,741,824 bytes of memory, and the stage needs 1,073,741,825 bytes" in reason


def test_memory_that_is_short_is_named() -> None:
    stages = [stage("s", memory=60, a=1.0), stage("t", memory=60, a=1.0)]
    reason = refusal(problem(stages, LINKS)).reason
    assert reason == (
        "no plan fits; the nearest is a: s, t, but a has 100 B of memory, and these stages need 120 B"
    )
    assert plan(problem(stages, LINKS, a=120)).assignment == ("a", "a")


def test_a_link_that_is_missing_is_named() -> None:
    reason = refusal(problem([stage("s", c=1.0)], LINKS)).reason
    assert reason == "no plan fits; the nearest is c: s, but there is no link a->c for the frames into s"
    assert plan(problem([stage("s", c=1.0)], [*LINKS, link("a", "c")])).assignment == ("c",)


def test_the_fewest_changes_are_named_and_of_equal_ones_memory() -> None:
    stages = [stage("s", memory=60, a=1.0, c=1.0), stage("t", memory=60, a=1.0, c=1.0)]
    assert "a has 100 B of memory" in refusal(problem(stages, LINKS)).reason  # or a link a->c
    stages = [stage(name, memory=60, c=1.0, **{node: 1.0}) for name, node in zip("stuv", "aabb", strict=True)]
    reason = refusal(problem(stages, [link("a", "b")], c=240)).reason  # or memory of both a and b
    assert reason.endswith("c: s, t, u, v, but there is no link a->c for the frames into s")


def test_memory_and_a_link_may_be_missing_together() -> None:
    stages = [stage("s", memory=60, c=1.0), stage("t", memory=60, c=1.0)]
    reason = refusal(problem(stages, LINKS)).reason
    assert "no link a->c for the frames into s; c has 100 B of memory, and these stages need 120 B" in reason


def test_stages_that_need_a_node_twice_are_named() -> None:
    stages = [stage("s", a=1.0), stage("t", b=1.0), stage("u", a=1.0)]
    refused = refusal(problem(stages, [link("a", "b"), link("b", "a")]))
    match = re.search(r"but (\w) is missing from the seconds of (\w)$", refused.reason)
    assert match is not None
    stages["stu".index(match[2])]["seconds"][match[1]] = 1.0
    assert plan(problem(stages, [link("a", "b"), link("b", "a")])).period_s <= 3.0
    assert "one run of neighbouring stages" in refused.hint


@pytest.mark.parametrize("seed", [3, 4, 6, 9, 12, 15])
def test_the_latency_of_the_hint_is_possible(seed: int) -> None:
    document = {**random_problem(seed), "max_latency_s": 1e-7}
    assert best({**document, "max_latency_s": None}) is not None
    hint = refusal(document).hint
    least = float(hint.removeprefix("write max_latency_s ").removesuffix(" or more"))
    assert isinstance(plan_cut(problem_of({**document, "max_latency_s": least})), CutPlan)
    assert best({**document, "max_latency_s": least * (1 - 2e-5)}) is None


@pytest.mark.parametrize("number", [0.1 + 0.2, 1.3, 1 / 3, 2e-9, 123456.7, 1e12 / 7, 0.0])
def test_a_number_is_rounded_up_to_six_digits(number: float) -> None:
    rounded = float(round_up(number))
    assert number <= rounded * (1 + 1e-15)
    assert math.isclose(number, rounded, rel_tol=1.1e-5)
    assert len(round_up(number).strip("0.").replace(".", "").lstrip("0")) <= 6
