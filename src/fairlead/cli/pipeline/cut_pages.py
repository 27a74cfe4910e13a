"""Plans and cuts as pages for people and documents for programs."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.output.show import show
from fairlead.cli.output.table import Cell, Column, Fit, Table, Tone
from fairlead.cli.output.terminal import Page, show_page
from fairlead.units import format_bytes, format_number

if TYPE_CHECKING:
    from fairlead.pipeline.plan.cut import CutHop, CutPlan, CutProblem
    from fairlead.pipeline.plan.explore import PrefixCut

_STAGES: Final = ("STAGE", "NODE", "TIME", "MEMORY")
_HOPS: Final = ("HOP", "INTO", "BYTES", "TRANSFER", "DELAY")
_CUTS: Final = (
    *(Column(name, Fit.KEEP) for name in ("CUT", "OTHER", "PERIOD", "LATENCY", "BYTES", "CCR")),
    Column("LIMITED BY", Fit.PROSE),
)


def answer(plan: "CutPlan") -> dict[str, Any]:
    """Return a plan as the contract has it."""
    return {
        "assignment": list(plan.assignment),
        "period_s": plan.period_s,
        "latency_s": plan.latency_s,
        "bottleneck": plan.bottleneck,
    }


def plan_page(problem: "CutProblem", plan: "CutPlan") -> Iterator[Table | str]:
    """Yield a plan for people."""
    from fairlead.pipeline.plan.explain import explain, milliseconds, sentences

    stages = [
        (stage.name, node, milliseconds(stage.seconds[node]), format_bytes(round(stage.memory_bytes)))
        for stage, node in zip(problem.stages, plan.assignment, strict=True)
    ]
    yield Table.of(_STAGES, stages)
    yield from hop_table(plan)
    yield f"Period {milliseconds(plan.period_s)}, latency {milliseconds(plan.latency_s)}."
    yield from sentences(problem, plan, explain(problem, plan))


def hop_table(plan: "CutPlan") -> Iterator[Table | str]:
    """Yield the hops of a plan, between empty lines."""
    yield ""
    if plan.hops:
        yield Table.of(_HOPS, [_hop_row(hop) for hop in plan.hops])
        yield ""


def _hop_row(hop: "CutHop") -> tuple[str, ...]:
    from fairlead.pipeline.plan.explain import milliseconds

    times = (hop.transfer_s, hop.link.delay_s)
    return (hop.link.name, hop.stage, format_number(hop.bytes), *map(milliseconds, times))


def show_cuts(
    options: argparse.Namespace, problem: "CutProblem", plan: "CutPlan | None", *, first_stays: bool = False
) -> None:
    """Show every prefix cut; with `first_stays`, those whose first stage is on the source's node."""
    from fairlead.pipeline.plan.explore import explore

    cuts = tuple(cut for cut in explore(problem) if not first_stays or cut.assignment[0] == problem.source)
    if options.output == "table":
        show_page(Page.of(*cut_lines(problem, plan, cuts)), options.color)
    else:
        shown = None if plan is None else answer(plan)
        document = {"source": problem.source, "cuts": [cut_document(cut) for cut in cuts], "plan": shown}
        show(document, options.output)


def cut_lines(
    problem: "CutProblem", plan: "CutPlan | None", cuts: "tuple[PrefixCut, ...]"
) -> list[Table | str]:
    """Return prefix cuts for people."""
    from fairlead.pipeline.plan.cut import describe_runs
    from fairlead.pipeline.plan.explain import milliseconds
    from fairlead.pipeline.plan.explore import best_cut

    best = best_cut(cuts)
    third = "; - is a third one" if any("-" in cut.letters for cut in cuts) else ""
    lines = [f"E is {problem.source}, the source's node; S is the other node{third}."]
    if plan is not None:
        runs = describe_runs(problem, plan.assignment)
        lines.append(f"Best of all plans: {runs}, with a period of {milliseconds(plan.period_s)}.")
    rows = [_cut_row(cut, chosen=cut is best) for cut in cuts]
    return [Table.of(_CUTS, rows), "", *lines]


def cut_document(cut: "PrefixCut") -> dict[str, Any]:
    """Return a prefix cut for programs."""
    from fairlead.pipeline.plan.cut import CutPlan

    plan = cut.outcome if isinstance(cut.outcome, CutPlan) else None
    return {
        "cut": cut.letters,
        "other": cut.other,
        "assignment": list(cut.assignment),
        "possible": plan is not None,
        "reason": None if isinstance(cut.outcome, CutPlan) else cut.outcome.reason,
        "period_s": plan and plan.period_s,
        "latency_s": plan and plan.latency_s,
        "bottleneck": plan and plan.bottleneck,
        "ccr": plan and plan.ratio,
        "hops": [hop_document(hop) for hop in plan.hops] if plan else [],
    }


def hop_document(hop: "CutHop") -> dict[str, Any]:
    """Return a hop for programs."""
    return {
        "from": hop.link.source,
        "to": hop.link.target,
        "stage": hop.stage,
        "bytes": hop.bytes,
        "transfer_s": hop.transfer_s,
        "delay_s": hop.link.delay_s,
    }


def _cut_row(cut: "PrefixCut", *, chosen: bool) -> tuple[str | Cell, ...]:
    from fairlead.pipeline.plan.cut import CutPlan
    from fairlead.pipeline.plan.explain import milliseconds

    plan = cut.outcome
    if not isinstance(plan, CutPlan):
        return (cut.letters, cut.other or "-", *"----", Cell(f"impossible: {plan.reason}", tone=Tone.BAD))
    moved = format_number(sum(hop.bytes for hop in plan.hops))
    ratio = "-" if plan.ratio is None else f"{plan.ratio:.2f}"
    what = Cell(f"{plan.bottleneck} (best cut)", tone=Tone.GOOD) if chosen else Cell(plan.bottleneck)
    times = (milliseconds(plan.period_s), milliseconds(plan.latency_s))
    return (cut.letters, cut.other or "-", *times, moved, ratio, what)
