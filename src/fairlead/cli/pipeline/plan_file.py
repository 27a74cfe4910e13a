"""`fairlead pipeline plan FILE`: the node of each stage of a pipeline, from its profile."""

import argparse
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.output.show import show
from fairlead.cli.output.table import Table, Tone
from fairlead.cli.output.terminal import Page, Text, show_error, show_page
from fairlead.cli.pipeline import cut_pages, hosts, profile
from fairlead.errors import NoPlanError, PipelineError, SettingsError
from fairlead.units import format_bytes, parse_bitrate, parse_duration

if TYPE_CHECKING:
    from fairlead.pipeline.plan.cut import CutPlan, CutRefusal
    from fairlead.pipeline.plan.explain import CutExplanation
    from fairlead.pipeline.plan.replicas import ReplicaChoice
    from fairlead.pipeline.profile.facts import LinkFacts, PipelineProfile
    from fairlead.pipeline.profile.problem import PipelineProblem
    from fairlead.pipeline.spec import PipelineSpec

_OBJECTIVES: Final = ("throughput", "latency")
_STAGES: Final = ("STAGE", "NODE", "TIME", "MEMORY", "BASIS")
_LINK: Final = re.compile(r"([^=>]+)->([^=>]+)=([^,]+)(?:,(.+))?")
_LARGEST: Final = 8 << 20


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options that a pipeline needs."""
    command.add_argument("--profile", metavar="PROFILE", help="plan from this profile, and measure nothing")
    command.add_argument(
        "--max-latency", metavar="TIME", help="the largest latency that is allowed, for example 100ms"
    )
    command.add_argument(
        "--objective",
        choices=_OBJECTIVES,
        default="throughput",
        help="the smallest period (default), or the smallest latency; the other decides between equal plans",
    )
    command.add_argument(
        "--link",
        dest="links",
        metavar="FROM->TO=RATE[,DELAY]",
        action="append",
        default=[],
        help="what a link carries, instead of what was measured: local->edge=100Mb/s,5ms; may be repeated",
    )
    command.add_argument(
        "--replicas", action="store_true", help="let --out write the replicas that the plan proposes"
    )
    command.add_argument("--out", metavar="PLANNED", help="write the pipeline with its plan to this file")
    profile.add_measuring(command)
    hosts.add_tls(command)


def refuse_options(options: argparse.Namespace) -> None:
    """Refuse what only a pipeline has; SettingsError."""
    for name, value in (
        ("--profile", options.profile),
        ("--max-latency", options.max_latency),
        ("--link", options.links),
        ("--replicas", options.replicas),
        ("--out", options.out),
        ("--class", options.classes),
    ):
        if value:
            raise SettingsError(f"{name} goes with a pipeline, not with --problem", "leave it out")


def run(options: argparse.Namespace) -> int:
    """Plan a pipeline."""
    from fairlead.pipeline.check import require_sound
    from fairlead.pipeline.plan.cut import CutRefusal
    from fairlead.pipeline.plan.solve import is_small
    from fairlead.pipeline.profile.problem import build_problem
    from fairlead.pipeline.yaml_file import read_pipeline

    limit = None if options.max_latency is None else profile.read_time("--max-latency", options.max_latency)
    links = [_read_link(text) for text in options.links]
    spec = require_sound(read_pipeline(options.file))
    _check_out(options)
    known = _known(spec, options, links)
    planned = build_problem(spec, known, limit, as_graph=options.solver == "milp")
    if options.solver == "auto" and planned.problem.sink is not None and not is_small(planned.problem):
        planned = build_problem(spec, known, limit, as_graph=True)
    outcome = _solve(planned, options)
    if options.explore and (not spec.is_chain or planned.problem.edges is not None):
        raise SettingsError(
            "--explore: only a chain has prefix cuts", "leave out --explore and --solver milp"
        )
    if isinstance(outcome, CutRefusal):
        if options.explore:
            cut_pages.show_cuts(options, planned.problem, None, first_stays=True)
        raise NoPlanError(f"{options.file}: {_in_options(outcome.reason)}", _in_options(outcome.hint))
    if options.explore:
        cut_pages.show_cuts(options, planned.problem, outcome, first_stays=True)
    else:
        _show(options, spec, known, planned, outcome)
    return 0


def _in_options(text: str) -> str:
    """Return a reason with the option of this command instead of the field of a problem."""
    return re.sub(r"max_latency_s ([0-9.]+)", r"--max-latency \1s", text).replace(
        "max_latency_s", "--max-latency"
    )


def _solve(planned: "PipelineProblem", options: argparse.Namespace) -> "CutPlan | CutRefusal":
    from fairlead.pipeline.plan.evaluate import evaluate
    from fairlead.pipeline.plan.solve import Objective, Solver, plan_cut

    problem = planned.problem
    if all(len(stage.seconds) == 1 for stage in problem.stages):  # nothing to choose, with joins neither
        return evaluate(problem, [next(iter(stage.seconds)) for stage in problem.stages])
    return plan_cut(problem, Solver(options.solver), Objective(options.objective))


def _known(spec: "PipelineSpec", options: argparse.Namespace, links: "list[LinkFacts]") -> "PipelineProfile":
    known = known_profile(spec, options)
    names = [machine.name for machine in known.machines]
    for link in links:
        for name in (link.source, link.target):
            if name not in names:
                raise SettingsError(f"--link: no machine is {name!r}", f"known: {', '.join(names)}")
    stated = {(link.source, link.target) for link in links}
    kept = [link for link in known.links if (link.source, link.target) not in stated]
    return replace(known, links=(*kept, *links))


def known_profile(spec: "PipelineSpec", options: argparse.Namespace) -> "PipelineProfile":
    """Return the profile of a pipeline: that of --profile, or one that is measured now; PipelineError."""
    known = profile.measure(spec, options) if options.profile is None else _read_profile(options.profile)
    if known.pipeline != spec.name:
        raise PipelineError(
            f"{options.profile}: a profile of pipeline {known.pipeline}, not of {spec.name}",
            "make one: fairlead pipeline profile",
        )
    return known


def _read_profile(path: str) -> "PipelineProfile":
    from fairlead.pipeline.profile.facts import PIPELINE_PROFILES

    hint = "make one: fairlead pipeline profile FILE --out PROFILE"
    try:
        with open(path, "rb") as file:
            return PIPELINE_PROFILES.decode(file.read(_LARGEST).decode())
    except OSError as error:
        raise PipelineError(f"{path}: cannot be read: {error.strerror}", hint) from None
    except ValueError as error:
        raise PipelineError(f"{path}: {error}", hint) from None


def _read_link(text: str) -> "LinkFacts":
    from fairlead.pipeline.profile.facts import LinkFacts

    match = _LINK.fullmatch(text)
    try:
        if match is None:
            raise ValueError("not FROM->TO=RATE")
        rate = parse_bitrate(match[3]) / 8
        if not rate > 0:
            raise ValueError("a rate is above 0")
        return LinkFacts(match[1].strip(), match[2].strip(), rate, parse_duration(match[4] or "0s"))
    except ValueError as error:
        hint = "write for example local->edge=100Mb/s,5ms"
        raise SettingsError(f"--link {text}: {error}", hint) from None


def _check_out(options: argparse.Namespace) -> None:
    """Refuse a file in another folder: the paths of the pipeline would change their meaning."""
    if options.replicas and not options.out:
        raise SettingsError("--replicas says what --out writes", "add --out PLANNED.yaml")
    if options.out and os.path.dirname(os.path.abspath(options.out)) != os.path.dirname(
        os.path.abspath(options.file)
    ):
        hint = "its relative paths begin there"
        raise SettingsError(f"--out {options.out}: not in the folder of {options.file}", hint)


def _show(
    options: argparse.Namespace,
    spec: "PipelineSpec",
    known: "PipelineProfile",
    planned: "PipelineProblem",
    plan: "CutPlan",
) -> None:
    from fairlead.pipeline.plan.explain import explain

    cores = {machine.name: machine.cores for machine in known.machines}
    explanation = explain(planned.problem, plan, sum(cores.values()), planned.problem.hop_s)
    choice = _choose_replicas(spec, planned, plan, cores)
    if options.out:
        _write(options, spec, dict(zip(planned.stages, planned.nodes_of(plan), strict=True)), choice)
    if plan.gap and options.output != "table":
        show_error(f"fairlead: the search ended early: the period may be up to {plan.gap:.2%} too large")
    if options.output == "table":
        show_page(Page.of(*_page(known, planned, plan, explanation, choice)), options.color)
    else:
        show(_document(options, known, planned, plan, explanation, choice), options.output)


def _choose_replicas(
    spec: "PipelineSpec", planned: "PipelineProblem", plan: "CutPlan", cores: dict[str, int]
) -> "ReplicaChoice | None":
    """Return what replicas do for the node that limits the plan; None: a link does."""
    from fairlead.pipeline.plan.replicas import StageTime, choose_replicas

    node = plan.bottleneck
    if node not in cores:
        return None
    times = [
        StageTime(stage.name, stage.seconds[node], _may_repeat(spec, stage.name))
        for stage, each in zip(planned.problem.stages, plan.assignment, strict=True)
        if each == node
    ]
    return choose_replicas(times, cores[node])


def _may_repeat(spec: "PipelineSpec", name: str) -> bool:
    """Return whether a check would allow replicas of a stage."""
    from fairlead.pipeline.check import check_pipeline

    stage = spec.stage(name)
    if stage.role in ("source", "sink") or stage.is_stateful:
        return False
    stages = [replace(each, replicas=2) if each is stage else each for each in spec.stages]
    return not check_pipeline(replace(spec, stages=tuple(stages)))[1]


def _page(
    known: "PipelineProfile",
    planned: "PipelineProblem",
    plan: "CutPlan",
    explanation: "CutExplanation",
    choice: "ReplicaChoice | None",
) -> Iterator[Table | str | Text]:
    from fairlead.pipeline.plan.explain import milliseconds, sentences
    from fairlead.pipeline.plan.replicas import replica_sentence
    from fairlead.pipeline.profile.problem import unknowns

    rows = []
    for stage, node in zip(planned.problem.stages, plan.assignment, strict=True):
        size = format_bytes(round(stage.memory_bytes))
        rows.append(
            (stage.name, node, milliseconds(stage.seconds[node]), size, _basis(known, stage.name, node))
        )
    if planned.problem.sink is not None:
        rows.append((planned.problem.sink.name, planned.problem.sink.node, "-", "-", "-"))
    yield Table.of(_STAGES, rows)
    yield from cut_pages.hop_table(plan)
    yield f"Period {milliseconds(plan.period_s)}, latency {milliseconds(plan.latency_s)}."
    lines = list(sentences(planned.problem, plan, explanation))
    if choice is not None and choice.stage:  # one process is not best then, although no split is better
        lines = [line.replace("One process is best: no split", "No split pays: none") for line in lines]
    yield from lines if len(known.machines) > 1 else lines[:-1]
    if choice is not None:
        cores = next(each.cores for each in known.machines if each.name == plan.bottleneck)
        yield replica_sentence(choice, cores)
    for line in unknowns(known):
        yield Text(f"note: {line}", Tone.WARN)


def _basis(known: "PipelineProfile", stage: str, node: str) -> str:
    facts = known.stage(stage)
    cost = facts.costs.get(node) if facts else None
    return "-" if cost is None else profile.basis_text(cost.basis, cost.frames, cost.confidence)


def _document(
    options: argparse.Namespace,
    known: "PipelineProfile",
    planned: "PipelineProblem",
    plan: "CutPlan",
    explanation: "CutExplanation",
    choice: "ReplicaChoice | None",
) -> dict[str, Any]:
    from fairlead.pipeline.profile.problem import unknowns

    single = explanation.one_node
    return cut_pages.answer(plan) | {
        "assignment": list(planned.nodes_of(plan)),
        "stages": list(planned.stages),
        "objective": options.objective,
        "limit": {
            "gain": explanation.limit,
            "cores": explanation.cores,
            "sum_s": explanation.sum_s,
            "slowest": explanation.slowest,
            "slowest_s": explanation.most_s,
        },
        "ccr": plan.ratio,
        "hops": [cut_pages.hop_document(hop) for hop in plan.hops],
        "one_process": {
            "is_best": explanation.one_process_is_best,
            "node": single and single.assignment[0],
            "period_s": single and single.period_s,
        },
        "replicas": choice
        and {"stage": choice.stage or None, "number": choice.replicas, "period_s": choice.period_s},
        "unknown": list(unknowns(known)),
    }


def _write(
    options: argparse.Namespace, spec: "PipelineSpec", nodes: dict[str, str], choice: "ReplicaChoice | None"
) -> None:
    from fairlead.outfile import atomic_write
    from fairlead.pipeline.profile.planned_file import with_plan

    replicas = {choice.stage: choice.replicas} if options.replicas and choice and choice.stage else {}
    try:
        with open(options.file, "rb") as file:
            text = with_plan(file.read(), spec, nodes, replicas)
        with atomic_write(options.out, text=True) as out:
            out.write(text)
    except OSError as error:
        raise SettingsError(
            f"--out {options.out}: {error.strerror}", "name a file that can be written"
        ) from None
