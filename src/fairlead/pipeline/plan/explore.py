"""Every prefix cut between the source's node and another: EEEE, EEES, EESS, ESSS, SSSS. Pure."""

from dataclasses import dataclass

from fairlead.pipeline.plan.cut import CutPlan, CutProblem, CutRefusal
from fairlead.pipeline.plan.evaluate import evaluate


@dataclass(frozen=True, slots=True)
class PrefixCut:
    """The first stages on the source's node, the others on one other node."""

    letters: str
    """One for each stage: E on the source's node, S on the other."""
    other: str | None
    """The other node; None where every stage is on the source's."""
    assignment: tuple[str, ...]
    outcome: CutPlan | CutRefusal


def explore(problem: CutProblem) -> tuple[PrefixCut, ...]:
    """Return the prefix cuts with every other node, from all stages there to all on the source's node."""
    count = len(problem.stages)
    others = [node.name for node in problem.nodes if node.name != problem.source]
    cuts = [_cut(problem, other, kept) for other in others for kept in range(count)]
    return (*cuts, _cut(problem, None, count))


def best_cut(cuts: tuple[PrefixCut, ...]) -> PrefixCut | None:
    """Return the possible cut with the smallest period, then the smallest latency."""
    plans = [
        (cut.outcome.period_s, cut.outcome.latency_s, cut) for cut in cuts if isinstance(cut.outcome, CutPlan)
    ]
    return min(plans, key=lambda each: each[:2])[2] if plans else None


def _cut(problem: CutProblem, other: str | None, kept: int) -> PrefixCut:
    moved = len(problem.stages) - kept
    assignment = (*[problem.source] * kept, *[other or problem.source] * moved)
    return PrefixCut("E" * kept + "S" * moved, other, assignment, evaluate(problem, assignment))
