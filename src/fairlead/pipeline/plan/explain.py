"""What a plan means: its bottleneck, the limit of any split, its hops, whether one process is best. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from fairlead.pipeline.plan.chain import plan_chain
from fairlead.pipeline.plan.cut import CutPlan, CutProblem, describe_runs, within
from fairlead.pipeline.plan.evaluate import evaluate
from fairlead.pipeline.plan.solve import is_small
from fairlead.units import format_number, pluralize

HOP_S: Final = 0.0004
"""CPU seconds that a 720p frame takes both ends of a shared-memory hop; between hosts it is more."""
HOST_HOP_S: Final = 0.0016
"""CPU seconds of both ends of a hop between hosts, whatever its bytes: session, gRPC and TLS. Measured with
an edge at a quarter of a CPU, where each end takes four times as long."""


@dataclass(frozen=True, slots=True)
class CutExplanation:
    """What a plan means for one who must choose."""

    cores: int
    slowest: str
    """The stage that takes longest."""
    sum_s: float
    most_s: float
    limit: float
    """min(cores, sum/max): no split of these stages is more times as fast as one process."""
    one_node: CutPlan | None
    """The best plan with all stages on one node."""
    charged: CutPlan | None
    """The best plan where each hop keeps its nodes busy as well; None where none fits or was searched."""
    one_process_is_best: bool
    """No split gains more than its hops cost."""
    hop_s: float


def explain(
    problem: CutProblem, plan: CutPlan, cores: int | None = None, hop_s: float = HOP_S
) -> CutExplanation:
    """Return what a plan of a chain means; without `cores` each node is one.

    With hops charged, half of each to both its nodes, stages stay in one process unless a split gains more.
    """
    cores = len(problem.nodes) if cores is None else cores
    seconds = [stage.seconds[node] for stage, node in zip(problem.stages, plan.assignment, strict=True)]
    most, total = max(seconds), sum(seconds)
    with_hops = replace(problem, hop_s=hop_s)
    charged = plan_chain(with_hops) if problem.edges is None and is_small(problem) else None
    alone = _best_node(with_hops)
    return CutExplanation(
        cores,
        problem.stages[seconds.index(most)].name,
        total,
        most,
        min(float(cores), total / most) if most else 1.0,
        _best_node(problem),
        charged,
        alone is not None and within(alone.period_s, (charged or plan).period_s),
        hop_s,
    )


def _best_node(problem: CutProblem) -> CutPlan | None:
    outcomes = [evaluate(problem, [node.name] * len(problem.stages)) for node in problem.nodes]
    plans = [each for each in outcomes if isinstance(each, CutPlan)]
    return min(plans, key=lambda each: (each.period_s, each.latency_s), default=None)


def sentences(problem: CutProblem, plan: CutPlan, explanation: CutExplanation) -> Iterator[str]:
    """Yield a plan's explanation for people."""
    yield _bottleneck(plan)
    yield (
        f"Limit: at most {explanation.limit:.2f}x one process with these times, min(cores, sum/max): "
        f"{pluralize(explanation.cores, 'core')}, {milliseconds(explanation.sum_s)} in all, "
        f"{milliseconds(explanation.most_s)} of it in {explanation.slowest}."
    )
    if plan.hops:
        ratio = "-" if plan.ratio is None else f"{plan.ratio:.2f}"
        total = format_number(sum(hop.bytes for hop in plan.hops))
        yield (
            f"Hops: {len(plan.hops)}, with {total} bytes for each frame; communication to computation: "
            f"{milliseconds(plan.communication_s)} to {milliseconds(plan.compute_s)}, a ratio of {ratio}."
        )
    yield _one_process(problem, plan, explanation)
    if plan.gap:
        yield f"The search ended early: the smallest period may be up to {plan.gap:.2%} smaller."


def milliseconds(seconds: float) -> str:
    """Return a time in milliseconds, with three digits."""
    return f"{format_number(seconds * 1000)} ms"


def _bottleneck(plan: CutPlan) -> str:
    link = plan.bottleneck not in [load.node for load in plan.loads]
    what = f"the link {plan.bottleneck} carries" if link else f"{plan.bottleneck} works on"
    rate = f", so at most {format_number(1 / plan.period_s)} frames/s pass" if plan.period_s else ""
    return f"Bottleneck: {what} each frame for {milliseconds(plan.period_s)}{rate}."


def _one_process(problem: CutProblem, plan: CutPlan, explanation: CutExplanation) -> str:
    single, hop = explanation.one_node, milliseconds(explanation.hop_s)
    if single is None:
        return "One process: impossible; no node can run all stages by itself within memory and latency."
    node = single.assignment[0]
    if single.assignment == plan.assignment:
        return f"One process is best: no split has a smaller period than {node} by itself."
    gain = (
        f"{milliseconds(single.period_s)} on {node} by itself, {milliseconds(plan.period_s)} with this plan"
    )
    if explanation.one_process_is_best:
        return f"One process is best if a hop takes {hop} of CPU: the period is {gain}."
    text = f"The split gains more than a hop takes ({hop} of CPU): the period is {gain}"
    charged = explanation.charged
    if charged is not None and charged.assignment != plan.assignment:
        return f"{text}; with hops counted, the best is {describe_runs(problem, charged.assignment)}."
    return f"{text}."
