"""A Pipeline with a host for every stage, and what is said of its plan and of a change of it. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from fairlead.compat.times import UTC, parse_iso
from fairlead.errors import PipelineError
from fairlead.keys import PIPELINE_HOST
from fairlead.ownedobjects.conditions import ConditionState
from fairlead.ownedobjects.kinds import NODES, PODS
from fairlead.pipeline.plan.cut import CutPlan, CutRefusal
from fairlead.pipeline.plan.explain import milliseconds
from fairlead.pipeline.profile.problem import PipelineProblem
from fairlead.pipelineobjects.conditions import ConditionType
from fairlead.pipelineobjects.eligible import HostPods, HostState, host_states
from fairlead.pipelineobjects.names import LOCAL, SLOTS, pod_name
from fairlead.pipelineobjects.placing import (
    SETTLED,
    BetterPlan,
    Hosts,
    PlacedBefore,
    Placing,
    decide,
    host_problem,
)
from fairlead.pipelineobjects.plan_spec import PlanSpec
from fairlead.pipelineobjects.resource import ON, PipelineResource
from fairlead.pipelineobjects.status import plan_state
from fairlead.reconcile import Announcement, Manifest, Observed

Json = dict[str, Any]
_DIGITS: Final = 9
_NO_PROFILE: Final = "spec.plan has no profile"
_MAKE_PROFILE: Final = (
    "fairlead pipeline profile FILE --out PROFILE measures one, and "
    "fairlead pipeline deploy FILE --profile PROFILE stores it"
)


@dataclass(frozen=True, slots=True)
class PlacedPipeline:
    """A Pipeline as it shall run now."""

    resource: PipelineResource | None
    """Every stage has a host; None: there has been no plan yet, and nothing can be made."""
    condition: ConditionState
    status: Json = field(default_factory=dict)
    announcements: tuple[Announcement, ...] = ()
    due: tuple[datetime, ...] = ()
    """When to decide again although nothing changes."""


@dataclass(frozen=True, slots=True)
class PlanningView:
    """What a plan of a Pipeline is made from."""

    problem: PipelineProblem | CutRefusal
    states: Mapping[str, HostState]


def place_stages(resource: PipelineResource, observed: Observed) -> PlacedPipeline:
    """Return a Pipeline with a host for every stage."""
    if resource.plan is None:
        return PlacedPipeline(resource, plan_state(resource))
    before = _before(observed.resource)
    if before is not None and _is_over(resource, observed.resource):
        placed = with_hosts(resource, before.hosts)
        return PlacedPipeline(placed, plan_state(placed), _last_placement(observed.resource))
    try:
        view = planning_view(resource, observed)
    except PipelineError as error:
        return _unplanned(resource, before, "ProfileMissing", str(error), error.hint or "", ())
    due = tuple(state.decided_at for state in view.states.values() if state.decided_at is not None)
    outcome: Placing | CutRefusal
    if isinstance(view.problem, CutRefusal):
        outcome = view.problem
    else:
        outcome = decide(view.problem, resource.plan.objective, before, resource.plan.digest, observed.now)
    if isinstance(outcome, CutRefusal):
        return _unplanned(resource, before, "NoPlan", outcome.reason, outcome.hint, due)
    return _placed(resource, resource.plan, before, outcome, view.states, due)


def planning_view(resource: PipelineResource, observed: Observed) -> PlanningView:
    """Return the problem of a plan beside its hosts; PipelineError where the profile does not know enough."""
    plan = resource.plan
    if plan is None or plan.profile is None:
        raise PipelineError(_NO_PROFILE, _MAKE_PROFILE)
    groups = (resource.local, *resource.hosts)
    running = [(host, node) for host, node in map(_place, observed.owned.get(PODS, ())) if node]
    pods = {
        group.name: HostPods(
            frozenset(node for host, node in running if host == group.name),
            tuple(
                f"{resource.namespace}/{pod_name(resource.name, group.name, slot)}" for slot in ("", *SLOTS)
            ),
        )
        for group in groups
    }
    states = host_states(groups, observed.watched.get(NODES), pods, observed.now)
    problem = host_problem(resource.spec, plan.profile, groups, states, plan.max_latency_s)
    return PlanningView(problem, states)


def with_hosts(resource: PipelineResource, hosts: Hosts) -> PipelineResource:
    """Return a Pipeline whose stages are on these hosts."""
    spec = resource.spec
    stages = tuple(replace(stage, on=hosts[stage.name], is_placed=True) for stage in spec.stages)
    entries = [{**entry, ON: hosts[str(entry["name"])]} for entry in resource.document["stages"]]
    document = {**resource.document, "stages": entries}
    return replace(resource, spec=replace(spec, stages=stages), document=document)


def _is_over(resource: PipelineResource, manifest: Manifest) -> bool:
    """Return whether the run of this spec has ended: with other hosts it would begin again."""
    status = manifest.get("status") or {}
    return "completed" in status and status.get("observedGeneration") == resource.generation


def _last_placement(manifest: Manifest) -> Json:
    return {"placement": manifest["status"]["placement"]} if "placement" in manifest["status"] else {}


def _place(pod: Manifest) -> tuple[str, str]:
    """Return the host and the node of a pod; the node is empty where it has none, or is leaving it."""
    host = (pod["metadata"].get("labels") or {}).get(PIPELINE_HOST, "")
    is_over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    leaves = is_over or "deletionTimestamp" in pod["metadata"]
    return host, "" if leaves else str((pod.get("spec") or {}).get("nodeName") or "")


def _before(manifest: Manifest) -> PlacedBefore | None:
    """Return what the status says of the last plan; None: there has been none."""
    status = manifest.get("status") or {}
    hosts = {str(each["stage"]): str(each["host"]) for each in status.get("plan") or ()}
    if not hosts:
        return None
    placement = status.get("placement") or {}
    since = (placement.get("better") or {}).get("since")
    return PlacedBefore(hosts, str(placement.get("digest") or ""), parse_iso(since) if since else None)


def _unplanned(
    resource: PipelineResource,
    before: PlacedBefore | None,
    reason: str,
    message: str,
    hint: str,
    due: tuple[datetime, ...],
) -> PlacedPipeline:
    """Return a Pipeline without a plan of now: what was placed before stays where it was."""
    text = f"{message}: {hint}" if hint else message
    known = {LOCAL, *(group.name for group in resource.hosts)}
    names = {stage.name for stage in resource.spec.stages}
    stays = before is not None and names <= before.hosts.keys() and set(before.hosts.values()) <= known
    text += "; the stages stay where they are" if stays else ""
    condition = ConditionState(ConditionType.PLANNED, False, reason, text, is_warning=True)
    if before is None or not stays:
        return PlacedPipeline(None, condition, due=due)
    status = {"placement": {"digest": before.digest}} if before.digest else {}
    return PlacedPipeline(with_hosts(resource, before.hosts), condition, status, due=due)


def _placed(
    resource: PipelineResource,
    plan: PlanSpec,
    before: PlacedBefore | None,
    placing: Placing,
    states: Mapping[str, HostState],
    due: tuple[datetime, ...],
) -> PlacedPipeline:
    placed = with_hosts(resource, placing.hosts)
    better = placing.better
    status = _figures(placing.plan) | {"digest": plan.digest}
    status |= {"better": _better(placing.hosts, better)} if better else {}
    missing = [{"host": each.name, "reason": each.fault} for each in states.values() if each.fault]
    status |= {"unavailable": missing} if missing else {}
    return PlacedPipeline(
        placed,
        _condition(placed, placing.plan),
        {"placement": status},
        tuple(_moves(before, placing, states)),
        (*due, better.since + SETTLED) if better else due,
    )


def _condition(placed: PipelineResource, plan: CutPlan) -> ConditionState:
    figures = f"period {milliseconds(plan.period_s)}, latency {milliseconds(plan.latency_s)}"
    text = f"{plan_state(placed).message}; {figures}, limited by {plan.bottleneck}"
    return ConditionState(ConditionType.PLANNED, True, "Placed", text)


def _figures(plan: CutPlan) -> Json:
    return {
        "periodSeconds": round(plan.period_s, _DIGITS),
        "latencySeconds": round(plan.latency_s, _DIGITS),
        "bottleneck": plan.bottleneck,
    }


def _better(hosts: Hosts, better: BetterPlan) -> Json:
    since = better.since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    moves = [
        {"stage": stage, "from": hosts[stage], "to": host}
        for stage, host in better.hosts.items()
        if hosts[stage] != host
    ]
    return {"since": since, **_figures(better.plan), "moves": moves, "cost": _cost(hosts, better.hosts)}


def _cost(before: Hosts, after: Hosts) -> str:
    """Return what a move takes: stages that are opened again, and pods that begin and end."""
    moved = [stage for stage, host in after.items() if before.get(stage) != host]
    parts = [f"{', '.join(moved)} {'open' if len(moved) > 1 else 'opens'} again"]
    begins = sorted(set(after.values()) - set(before.values()) - {LOCAL})
    ends = sorted(set(before.values()) - set(after.values()) - {LOCAL})
    parts += [f"the pod of {', '.join(begins)} begins"] if begins else []
    parts += [f"the pod of {', '.join(ends)} ends"] if ends else []
    return "; ".join(parts)


def _moves(
    before: PlacedBefore | None, placing: Placing, states: Mapping[str, HostState]
) -> Iterable[Announcement]:
    """Yield one event for all stages that move: a pass that is repeated announces nothing twice."""
    ways: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    old = before.hosts if before is not None else {}
    for stage, host in placing.hosts.items():
        if old.get(stage, host) != host:
            ways[old[stage], host].append(stage)
    if not ways:
        return
    text = ", ".join(
        f"{' and '.join(stages)} {'move' if len(stages) > 1 else 'moves'} from {source} to {target}"
        for (source, target), stages in ways.items()
    )
    reason = _reason([source for source, _ in ways], placing.reason, states)
    yield Announcement("Normal", "StagesMoved", f"{text}: {reason}; {_cost(old, placing.hosts)}")


def _reason(left: list[str], reason: str, states: Mapping[str, HostState]) -> str:
    for host in left:
        if host not in states:
            return f"spec.hosts has no {host} any more"
        if states[host].fault:
            return states[host].fault
    return reason or "the spec has changed"
