"""`fairlead pipeline`: applications as streams of frames through stages."""

import argparse
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.output.show import show
from fairlead.cli.output.table import Table
from fairlead.cli.output.terminal import Page, show_page
from fairlead.cli.pipeline import deploy, deployed, hosts, plan, profile, run, top
from fairlead.cli.shell import options as shared
from fairlead.units import format_duration, pluralize

if TYPE_CHECKING:
    from fairlead.pipeline.check import Problem
    from fairlead.pipeline.fuse import RunPlan

_STAGES: Final = ("STAGE", "KIND", "PROCESS", "IN", "OUT", "ON-ERROR")
_EDGES: Final = ("EDGE", "POLICY", "DEPTH", "MAX-AGE")


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "pipeline",
        help="check, plan, run and watch applications made of streaming stages",
        description="Check, plan, run and watch applications made of stages that frames stream through, on "
        "this machine and others.",
    )
    verbs = command.add_subparsers(title="verbs", dest="verb", metavar="VERB", required=True)
    check = verbs.add_parser(
        "check",
        help="check a pipeline and show its processes",
        description="Check a pipeline without starting it: names, edges, ports, functions and files. "
        "Shows its processes and edges, or every problem with its line (exit code 2).",
    )
    check.add_argument("file", metavar="FILE", help="the pipeline, in YAML")
    check.add_argument(
        "--connect", action="store_true", help="ask its hosts as well whether they can run their stages"
    )
    hosts.add_tls(check)
    shared.add_output(check)
    check.set_defaults(run=_check)
    run.add(verbs)
    top.add(verbs)
    profile.add(verbs)
    plan.add(verbs)
    hosts.add_verbs(verbs)
    deploy.add(verbs)
    deployed.add_verbs(verbs)


def _check(options: argparse.Namespace) -> int:
    from fairlead.pipeline.check import check_pipeline
    from fairlead.pipeline.fuse import plan_workers
    from fairlead.pipeline.yaml_file import read_pipeline

    spec, problems = check_pipeline(read_pipeline(options.file))
    if options.connect and not problems:
        answers = hosts.ask(spec, options)
        spec, problems = answers.spec, [*answers.problems]
    if problems:
        _show_problems(options, spec.name, problems)
        return 2
    plan = plan_workers(spec)
    if options.output == "table":
        show_page(_plan_page(plan), options.color)
    else:
        show(_plan_document(plan), options.output)
    return 0


def _show_problems(options: argparse.Namespace, name: str, problems: "list[Problem]") -> None:
    if options.output != "table":
        found = [{"where": each.where, "what": each.what, "hint": each.hint} for each in problems]
        show({"pipeline": name, "problems": found, "stages": [], "edges": []}, options.output)
        return
    lines = [f"{each.where}: {each.what}" + (f"\n  {each.hint}" if each.hint else "") for each in problems]
    show_page(Page.of(*lines, f"{pluralize(len(problems), 'problem')} found"), options.color)


def _plan_document(plan: "RunPlan") -> dict[str, Any]:
    stages = [
        {
            "name": stage.name,
            "kind": str(stage.kind),
            "processes": _processes(plan, stage.name),
            "in": str(stage.inputs),
            "out": str(stage.outputs),
            "on_error": str(stage.on_error),
        }
        for stage in plan.spec.stages
    ]
    edges = [
        {
            "from": edge.source,
            "to": edge.target,
            "policy": str(edge.contract),
            "depth": edge.contract.depth,
            "max_age_seconds": edge.contract.max_age,
        }
        for edge in plan.spec.edges
    ]
    return {"pipeline": plan.spec.name, "problems": [], "stages": stages, "edges": edges}


def _plan_page(plan: "RunPlan") -> Page:
    document = _plan_document(plan)
    stages = [
        (each["name"], each["kind"], " ".join(each["processes"]), each["in"], each["out"], each["on_error"])
        for each in document["stages"]
    ]
    edges = [
        (
            edge.name,
            str(edge.contract),
            str(edge.contract.depth),
            "-" if edge.contract.max_age is None else format_duration(edge.contract.max_age),
        )
        for edge in plan.spec.edges
    ]
    total = f"{pluralize(len(stages), 'stage')} in {pluralize(len(plan.workers), 'process', 'processes')}"
    return Page.of(
        Table.of(_STAGES, stages),
        "",
        Table.of(_EDGES, edges),
        "",
        f"{plan.spec.name}: {total}; no problem found",
    )


def _processes(plan: "RunPlan", stage: str) -> list[str]:
    return [worker.name for worker in plan.workers if stage in {each.name for each in worker.stages}]
