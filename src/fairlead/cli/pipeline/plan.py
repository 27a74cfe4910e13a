"""`fairlead pipeline plan`: the node of each stage with the smallest period, and what limits it."""

import argparse
import os
import stat
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.output.show import show
from fairlead.cli.output.table import Cell, Column, Fit, Table, Tone
from fairlead.cli.output.terminal import Page, show_error, show_page
from fairlead.cli.shell import options as shared
from fairlead.errors import NoPlanError, PipelineError
from fairlead.units import format_bytes, format_number

if TYPE_CHECKING:
    from fairlead.pipeline.plan.cut import CutHop, CutPlan, CutProblem
    from fairlead.pipeline.plan.explore import PrefixCut

_SOLVERS: Final = ("auto", "dp", "milp")
_STAGES: Final = ("STAGE", "NODE", "TIME", "MEMORY")
_HOPS: Final = ("HOP", "INTO", "BYTES", "TRANSFER", "DELAY")
_CUTS: Final = (
    *(Column(name, Fit.KEEP) for name in ("CUT", "OTHER", "PERIOD", "LATENCY", "BYTES", "CCR")),
    Column("LIMITED BY", Fit.PROSE),
)
_LARGEST: Final = 8 << 20
"""Bytes of a problem: a thousand stages on a hundred nodes have about half of it."""
_STDIN: Final = "-"


def add(verbs: Any) -> None:
    """Add the verb to the command line."""
    plan = verbs.add_parser(
        "plan",
        help="find the node of each stage that gives the most frames a second",
        description="Find the node of each stage of a chain, from measured times, links and memory: the "
        "smallest period, then the smallest latency. Says what limits it, or why no plan fits (exit code 1).",
    )
    plan.add_argument(
        "--problem", metavar="FILE", required=True, help="nodes, links and stages, in JSON; - reads stdin"
    )
    plan.add_argument(
        "--explore",
        action="store_true",
        help="show every cut with the first stages on the source's node and the others on another",
    )
    plan.add_argument(
        "--solver",
        choices=_SOLVERS,
        default="auto",
        help="dp: exact search; milp: HiGHS; auto: dp, and milp with more than about 16 different nodes",
    )
    shared.add_output(plan)
    plan.set_defaults(run=_plan)


def _plan(options: argparse.Namespace) -> int:
    from fairlead.pipeline.plan.cut import CutRefusal
    from fairlead.pipeline.plan.problem_file import parse_problem
    from fairlead.pipeline.plan.solve import Solver, plan_cut

    name = "standard input" if options.problem == _STDIN else options.problem
    problem = parse_problem(_read(options.problem, name), name)
    outcome = plan_cut(problem, Solver(options.solver))
    if isinstance(outcome, CutRefusal):
        if options.explore:
            _show_cuts(options, problem, None)
        raise NoPlanError(f"{name}: {outcome.reason}", outcome.hint)
    if outcome.gap and options.output != "table":  # the table says so itself
        show_error(f"fairlead: the search ended early: the period may be up to {outcome.gap:.2%} too large")
    if options.explore:
        _show_cuts(options, problem, outcome)
    elif options.output == "table":
        show_page(Page.of(*_plan_page(problem, outcome)), options.color)
    else:
        show(_answer(outcome), options.output)
    return 0


def _read(path: str, name: str) -> bytes:
    hint = "name a JSON file, or - for the standard input"
    try:
        if path == _STDIN:
            data = sys.stdin.buffer.read(_LARGEST + 1)
        else:
            kind = os.stat(path).st_mode
            if not stat.S_ISREG(kind) and not stat.S_ISFIFO(kind):  # a device may never end
                raise PipelineError(f"{name}: not a file", hint)
            with open(path, "rb") as file:
                data = file.read(_LARGEST + 1)
    except OSError as error:
        raise PipelineError(f"{name}: cannot be read: {error.strerror}", hint) from None
    except ValueError as error:  # a path with a NUL
        raise PipelineError(f"{name!r}: {error}", hint) from None
    if len(data) > _LARGEST:
        raise PipelineError(f"{name}: more than {_LARGEST >> 20} MiB", "leave out what no plan needs")
    return data


def _answer(plan: "CutPlan") -> dict[str, Any]:
    return {
        "assignment": list(plan.assignment),
        "period_s": plan.period_s,
        "latency_s": plan.latency_s,
        "bottleneck": plan.bottleneck,
    }


def _plan_page(problem: "CutProblem", plan: "CutPlan") -> Iterator[Table | str]:
    from fairlead.pipeline.plan.explain import explain, milliseconds, sentences

    stages = [
        (stage.name, node, milliseconds(stage.seconds[node]), format_bytes(round(stage.memory_bytes)))
        for stage, node in zip(problem.stages, plan.assignment, strict=True)
    ]
    yield Table.of(_STAGES, stages)
    yield ""
    if plan.hops:
        yield Table.of(_HOPS, [_hop_row(hop) for hop in plan.hops])
        yield ""
    yield f"Period {milliseconds(plan.period_s)}, latency {milliseconds(plan.latency_s)}."
    yield from sentences(problem, plan, explain(problem, plan))


def _hop_row(hop: "CutHop") -> tuple[str, ...]:
    from fairlead.pipeline.plan.explain import milliseconds

    times = (hop.transfer_s, hop.link.delay_s)
    return (hop.link.name, hop.stage, format_number(hop.bytes), *map(milliseconds, times))


def _show_cuts(options: argparse.Namespace, problem: "CutProblem", plan: "CutPlan | None") -> None:
    from fairlead.pipeline.plan.cut import describe_runs
    from fairlead.pipeline.plan.explain import milliseconds
    from fairlead.pipeline.plan.explore import best_cut, explore

    cuts = explore(problem)
    if options.output != "table":
        answer = None if plan is None else _answer(plan)
        document = {"source": problem.source, "cuts": [_cut_document(cut) for cut in cuts], "plan": answer}
        show(document, options.output)
        return
    best = best_cut(cuts)
    lines = [f"E is {problem.source}, the source's node; S is the other node."]
    if plan is not None:
        runs = describe_runs(problem, plan.assignment)
        lines.append(f"Best of all plans: {runs}, with a period of {milliseconds(plan.period_s)}.")
    rows = [_cut_row(cut, chosen=cut is best) for cut in cuts]
    show_page(Page.of(Table.of(_CUTS, rows), "", *lines), options.color)


def _cut_document(cut: "PrefixCut") -> dict[str, Any]:
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
        "hops": [_hop_document(hop) for hop in plan.hops] if plan else [],
    }


def _hop_document(hop: "CutHop") -> dict[str, Any]:
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
