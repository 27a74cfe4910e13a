"""The plan of a pipeline in a cluster: what `deploy --profile` stores, and what is shown of it."""

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.output.table import Column, Fit, Table, Tone
from fairlead.cli.output.terminal import Text
from fairlead.cli.pipeline import cluster, cut_pages, plan_file, profile
from fairlead.cli.shell.resources import ResourceAccess
from fairlead.errors import FairleadError, NoPlanError, PipelineError, SettingsError

if TYPE_CHECKING:
    from fairlead.pipeline.spec import PipelineSpec
    from fairlead.reconcile import Observed

_STAGES: Final = tuple(Column(each, Fit.KEEP) for each in ("STAGE", "HOST", "TIME"))
Json = dict[str, Any]


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of a plan."""
    command.add_argument(
        "--profile",
        metavar="PROFILE",
        help="let the operator choose the host of each stage that states no `on`, from this profile",
    )
    plan_file.add_wishes(command)


def stored_plan(spec: "PipelineSpec", options: argparse.Namespace) -> Json | None:
    """Return `spec.plan`; None: nothing is planned. SettingsError, PipelineError."""
    from fairlead.pipelineobjects.plan_spec import plan_body

    if options.profile is None:
        for name, is_stated in (
            ("--max-latency", options.max_latency is not None),
            ("--objective latency", options.objective != "throughput"),
            ("--link", bool(options.links)),
        ):
            if is_stated:
                raise SettingsError(f"{name} is about a plan", "add --profile PROFILE")
        return None
    if options.max_latency is not None:
        profile.read_time("--max-latency", options.max_latency)
    if not spec.hosts:
        what = f"{options.file}: --profile: there are no hosts to choose from"
        raise PipelineError(what, "add hosts:")
    return plan_body(plan_file.stated_profile(spec, options), options.objective, options.max_latency)


def read_nodes(options: argparse.Namespace, name: str) -> tuple[list[Json] | None, str]:
    """Return the nodes of the cluster, or None and why the plan does without them."""
    from fairlead.cluster.kinds import NODES

    async def work(access: ResourceAccess) -> list[Json]:
        return [each.document() for each in (await access.client.list(NODES.raw())).items]

    try:
        return cluster.with_pipeline(options, name, work), ""
    except FairleadError as error:
        return None, str(error)


def require_plan(path: str, status: Mapping[str, Any]) -> None:
    """Refuse a Pipeline whose stages have no host: NoPlanError, or PipelineError where its profile lacks."""
    planned = next(each for each in status["conditions"] if each["type"] == "Planned")
    if planned["status"] != "True":
        error = PipelineError if planned["reason"] == "ProfileMissing" else NoPlanError
        raise error(f"{path}: {planned['message']}")


class ShownPlan:
    """The plan of a Pipeline that is not stored."""

    def __init__(self, observed: "Observed", status: Mapping[str, Any], not_asked: str) -> None:
        """Take what the operator would say; `not_asked` is why no cluster's nodes count."""
        from fairlead.pipeline.plan.cut import CutPlan
        from fairlead.pipeline.plan.evaluate import evaluate
        from fairlead.pipeline.plan.explore import explore
        from fairlead.pipeline.profile.problem import PipelineProblem
        from fairlead.pipelineobjects.placed import planning_view
        from fairlead.pipelineobjects.placing import is_pinned
        from fairlead.pipelineobjects.resource import read_resource

        resource = read_resource(observed.resource)
        planned = planning_view(resource, observed).problem
        assert isinstance(planned, PipelineProblem), "there is a plan"
        self.hosts: dict[str, str] = {each["stage"]: each["host"] for each in status["plan"]}
        self.problem = planned.problem
        plan = evaluate(self.problem, [self.hosts[stage.name] for stage in self.problem.stages])
        assert isinstance(plan, CutPlan), "it is possible"
        self.plan = plan
        pinned = {stage.name for stage in resource.spec.stages if is_pinned(stage)}
        self.cuts = explore(self.problem, pinned) if self.problem.edges is None else ()
        self._placement: Json = status["placement"]
        self._not_asked = not_asked

    def document(self) -> Json:
        """Return it for programs."""
        return placement_document(self._placement) | {
            "nodes": "not asked" if self._not_asked else "asked",
            "cuts": [cut_pages.cut_document(cut) for cut in self.cuts],
        }

    def lines(self) -> Iterator[Table | Text | str]:
        """Yield it for people."""
        from fairlead.pipeline.plan.explain import explain, milliseconds, sentences

        seconds = {
            stage.name: milliseconds(stage.seconds[self.hosts[stage.name]]) for stage in self.problem.stages
        }
        rows = [(stage, host, seconds.get(stage, "-")) for stage, host in self.hosts.items()]
        yield Table.of(_STAGES, rows)
        yield from cut_pages.hop_table(self.plan)
        times = (milliseconds(self.plan.period_s), milliseconds(self.plan.latency_s))
        yield f"By the profile: period {times[0]}, latency {times[1]}."
        yield next(sentences(self.problem, self.plan, explain(self.problem, self.plan)))
        if self._not_asked:
            note = f"note: no cluster was asked: every host counts as there ({self._not_asked})"
            yield Text(note, Tone.WARN)
        yield from _unavailable(self._placement)
        if self.cuts:
            yield ""
            yield from cut_pages.cut_lines(self.problem, self.plan, self.cuts)


def placement_document(placement: Mapping[str, Any]) -> Json:
    """Return what a status says of a plan, with the names of `fairlead pipeline plan`."""
    better = placement.get("better")
    return {
        **_figures(placement),
        "better": better
        and {"since": better["since"], **_figures(better), "moves": better["moves"], "cost": better["cost"]},
        "unavailable": list(placement.get("unavailable") or ()),
    }


def placement_lines(placement: Mapping[str, Any]) -> Iterator[Text | str]:
    """Yield what a status says of a plan, for people."""
    if "periodSeconds" in placement:
        yield f"Plan: {_times(placement)} by the profile, limited by {placement['bottleneck']}."
    better = placement.get("better")
    if better:
        moves = ", ".join(f"{each['stage']} from {each['from']} to {each['to']}" for each in better["moves"])
        yield f"Better since {better['since']}: {_times(better)}, with {moves}; {better['cost']}."
    yield from _unavailable(placement)


def _figures(placement: Mapping[str, Any]) -> Json:
    return {
        "period_s": placement.get("periodSeconds"),
        "latency_s": placement.get("latencySeconds"),
        "bottleneck": placement.get("bottleneck"),
    }


def _times(placement: Mapping[str, Any]) -> str:
    from fairlead.pipeline.plan.explain import milliseconds

    period, latency = (milliseconds(placement[key]) for key in ("periodSeconds", "latencySeconds"))
    return f"period {period}, latency {latency}"


def _unavailable(placement: Mapping[str, Any]) -> Iterator[Text]:
    for each in placement.get("unavailable") or ():
        yield Text(f"note: no stage can be put on {each['host']}: {each['reason']}", Tone.WARN)
