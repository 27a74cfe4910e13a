"""`fairlead pipeline run --replan`: plan before the run, and again while it runs."""

import argparse
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fairlead.cli.output.terminal import show_error
from fairlead.cli.pipeline import hosts, plan_file
from fairlead.errors import NoPlanError, PipelineError, SettingsError

if TYPE_CHECKING:
    from fairlead.pipeline.link.tls import HostTlsFiles
    from fairlead.pipeline.profile.facts import PipelineProfile
    from fairlead.pipeline.replan.moves import MovePlanner
    from fairlead.pipeline.replan.rates import Route
    from fairlead.pipeline.replan.replanning import MeasureLink
    from fairlead.pipeline.spec import PipelineSpec


@dataclass(frozen=True, slots=True)
class PreparedMoves:
    """A pipeline with the hosts of its first plan, and what plans it again."""

    spec: "PipelineSpec"
    movable: frozenset[str]
    candidates: tuple[str, ...]
    """Hosts that stages may move to."""
    planner: "MovePlanner"


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of replanning."""
    command.add_argument(
        "--replan",
        action="store_true",
        help="put the stages that state no `on` where a plan says, and move them when the measured rates "
        "leave the plan",
    )
    command.add_argument(
        "--profile", metavar="PROFILE", help="of --replan: plan from this profile; without it, measure first"
    )
    command.set_defaults(frames=30, seconds="10s", classes=[], catalog=[])


def check_options(options: argparse.Namespace) -> None:
    """Refuse options that do not go together; SettingsError."""
    if options.profile is not None and not options.replan:
        raise SettingsError("--profile goes with --replan", "add --replan")


def prepare(spec: "PipelineSpec", options: argparse.Namespace) -> PreparedMoves:
    """Plan a pipeline before it runs; PipelineError, NoPlanError."""
    from fairlead.pipeline.plan.cut import CutRefusal
    from fairlead.pipeline.plan.solve import plan_cut
    from fairlead.pipeline.profile.problem import build_problem
    from fairlead.pipeline.replan.replanner import Replanner, movable_stages
    from fairlead.pipeline.replan.replanning import RunReplanning

    movable = movable_stages(spec)
    if not spec.is_chain:
        raise PipelineError(
            "--replan: stages that join or branch are not moved", "leave out --replan, or use plan --out"
        )
    if scaled := next((stage.name for stage in spec.stages if stage.scale is not None), ""):
        raise PipelineError(
            f"--replan: the replicas of {scaled} follow the load", "state a number, or leave out --replan"
        )
    if not movable:
        raise PipelineError("--replan: every stage states `on`", "remove `on` of stages that may move")
    hosts.require_private_hosts(spec, options)
    if options.profile is None:
        show_error("fairlead: --replan without --profile: measuring stages and links first")
    known = _reachable(spec, plan_file.known_profile(spec, options))
    planned = build_problem(spec, known)
    plan = plan_cut(planned.problem)
    if isinstance(plan, CutRefusal):
        raise NoPlanError(f"{options.file}: {plan.reason}", plan.hint)
    nodes = dict(zip(planned.stages, planned.nodes_of(plan), strict=True))
    placed = [replace(each, on=nodes[each.name]) if each.name in movable else each for each in spec.stages]
    candidates = tuple(machine.name for machine in known.machines if machine.name != "local")
    planner = RunReplanning(Replanner(spec, known, nodes), _link_measure(spec, hosts.tls_files(options)))
    return PreparedMoves(replace(spec, stages=tuple(placed)), movable, candidates, planner)


def _reachable(spec: "PipelineSpec", known: "PipelineProfile") -> "PipelineProfile":
    """Return a profile without machines that no stage can be put on."""
    names = {"local", *(host.name for host in spec.hosts if host.address)}
    stages = [
        replace(each, costs={node: cost for node, cost in each.costs.items() if node in names})
        for each in known.stages
    ]
    machines = tuple(machine for machine in known.machines if machine.name in names)
    links = tuple(link for link in known.links if {link.source, link.target} <= names)
    return replace(known, machines=machines, links=links, stages=tuple(stages))


def _link_measure(spec: "PipelineSpec", tls: "HostTlsFiles | None") -> "MeasureLink":
    """Return what measures a link between two machines, over the transport of the run."""

    def measure(route: "Route") -> float:
        from fairlead.pipeline.profile.link_rate import measure_link
        from fairlead.pipeline.profile.remote import ProfiledHost

        known = {host.name: host for host in spec.hosts}
        source, target = known.get(route[0]), known.get(route[1])
        if source is None or target is None:
            far = source or target
            assert far is not None
            rates = measure_link(far.address, tls)
            return rates.there if source is None else rates.back
        return ProfiledHost(source, tls).measure_link(target).there

    return measure
