"""Every prefix cut between the source's node and another: EEEE, EEES, EESS, ESSS, SSSS. Pure."""

from collections.abc import Collection
from dataclasses import dataclass

from fairlead.pipeline.plan.cut import CutPlan, CutProblem, CutRefusal
from fairlead.pipeline.plan.evaluate import evaluate


@dataclass(frozen=True, slots=True)
class PrefixCut:
    """The first stages on the source's node, the others on one other node."""

    letters: str
    """One for each stage: E on the source's node, S on the other, - on a third, where it must be."""
    other: str | None
    """The other node; None where every stage is on the source's."""
    assignment: tuple[str, ...]
    outcome: CutPlan | CutRefusal


def explore(problem: CutProblem, fixed: Collection[str] = ()) -> tuple[PrefixCut, ...]:
    """Return the prefix cuts with every other node, from all stages there to all on the source's node.

    The stages of `fixed` stay on their only node: of the others the first are on the source's.
    """
    count = sum(stage.name not in fixed for stage in problem.stages)
    others = [node.name for node in problem.nodes if node.name != problem.source]
    cuts = [_cut(problem, other, kept, fixed) for other in others for kept in range(count)]
    return (*cuts, _cut(problem, None, count, fixed))


def best_cut(cuts: tuple[PrefixCut, ...]) -> PrefixCut | None:
    """Return the possible cut with the smallest period, then the smallest latency."""
    plans = [
        (cut.outcome.period_s, cut.outcome.latency_s, cut) for cut in cuts if isinstance(cut.outcome, CutPlan)
    ]
    return min(plans, key=lambda each: each[:2])[2] if plans else None


def _cut(problem: CutProblem, other: str | None, kept: int, fixed: Collection[str]) -> PrefixCut:
    """Return the cut with `kept` of the free stages on the source's node."""
    places, left = [], kept
    for stage in problem.stages:
        if stage.name in fixed:
            places.append(next(iter(stage.seconds)))
            continue
        places.append(problem.source if left > 0 else other or problem.source)
        left -= 1
    letters = {other: "S", problem.source: "E"}
    text = "".join(letters.get(place, "-") for place in places)
    return PrefixCut(text, other, tuple(places), evaluate(problem, places))
