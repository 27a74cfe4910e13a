"""`fairlead pipeline plan`: the node of each stage with the smallest period, and what limits it."""

import argparse
import os
import stat
import sys
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.output.show import show
from fairlead.cli.output.terminal import Page, show_error, show_page
from fairlead.cli.pipeline import cut_pages, plan_file
from fairlead.cli.shell import options as shared
from fairlead.errors import NoPlanError, PipelineError, SettingsError

if TYPE_CHECKING:
    pass

_SOLVERS: Final = ("auto", "dp", "milp")
_LARGEST: Final = 8 << 20
"""Bytes of a problem: a thousand stages on a hundred nodes have about half of it."""
_STDIN: Final = "-"


def add(verbs: Any) -> None:
    """Add the verb to the command line."""
    plan = verbs.add_parser(
        "plan",
        help="find the node of each stage that gives the most frames a second",
        description="Find the node of each stage, from measured times, links and memory: the smallest "
        "period, then the smallest latency. Says what limits it, or why no plan fits (exit code 1). A "
        "pipeline is profiled first, unless --profile names a profile of it.",
    )
    plan.add_argument("file", metavar="FILE", nargs="?", help="the pipeline, in YAML")
    plan.add_argument("--problem", metavar="FILE", help="nodes, links and stages, in JSON; - reads stdin")
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
    plan_file.add_options(plan)
    shared.add_output(plan)
    plan.set_defaults(run=_plan)


def _plan(options: argparse.Namespace) -> int:
    if (options.file is None) == (options.problem is None):
        raise SettingsError(
            "name a pipeline, or a problem with --problem: one of them", "fairlead docs pipeline-plan"
        )
    if options.file is not None:
        return plan_file.run(options)
    plan_file.refuse_options(options)
    return _plan_problem(options)


def _plan_problem(options: argparse.Namespace) -> int:
    from fairlead.pipeline.plan.cut import CutRefusal
    from fairlead.pipeline.plan.problem_file import parse_problem
    from fairlead.pipeline.plan.solve import Objective, Solver, plan_cut

    name = "standard input" if options.problem == _STDIN else options.problem
    problem = parse_problem(_read(options.problem, name), name)
    outcome = plan_cut(problem, Solver(options.solver), Objective(options.objective))
    if isinstance(outcome, CutRefusal):
        if options.explore:
            cut_pages.show_cuts(options, problem, None)
        raise NoPlanError(f"{name}: {outcome.reason}", outcome.hint)
    if outcome.gap and options.output != "table":  # the table says so itself
        show_error(f"fairlead: the search ended early: the period may be up to {outcome.gap:.2%} too large")
    if options.explore:
        cut_pages.show_cuts(options, problem, outcome)
    elif options.output == "table":
        show_page(Page.of(*cut_pages.plan_page(problem, outcome)), options.color)
    else:
        show(cut_pages.answer(outcome), options.output)
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
