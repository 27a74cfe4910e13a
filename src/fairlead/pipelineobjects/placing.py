"""The host of each stage of a Pipeline: the exact plan, and whether it pays to leave the one of now. Pure.

The problem is that of `fairlead pipeline plan`, with the hosts of the resource as its nodes: a host has the
times of the profile's machine of its name, else those of a machine of its class.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from fairlead.pipeline.plan.cut import CutPlan, CutProblem, CutRefusal
from fairlead.pipeline.plan.evaluate import evaluate
from fairlead.pipeline.plan.solve import Objective, Solver, is_small, plan_cut
from fairlead.pipeline.profile.facts import LinkFacts, MachineFacts, PipelineProfile, StageFacts
from fairlead.pipeline.profile.problem import PipelineProblem, build_problem
from fairlead.pipeline.spec import PipelineSpec, StageRole, StageSpec
from fairlead.pipelineobjects.eligible import HostState
from fairlead.pipelineobjects.resource import HostGroup

MARGIN: Final = 0.15
"""The part of the present period, or latency, that another plan must save."""
SETTLED: Final = timedelta(seconds=60)
"""For how long another plan must have been better before stages move to it."""
MOST_HOSTS: Final = 10
"""Hosts that a plan chooses from: with 10 the search of 24 stages takes 0.2 s, with 16 it takes 6 s."""
Hosts = Mapping[str, str]
"""By stage: its host."""


@dataclass(frozen=True, slots=True)
class PlacedBefore:
    """What the last pass decided."""

    hosts: Hosts
    digest: str = ""
    """Of the `spec.plan` that it was decided by."""
    better_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class BetterPlan:
    """A plan that is not made yet: it must stay better for a while."""

    since: datetime
    hosts: Hosts
    plan: CutPlan


@dataclass(frozen=True, slots=True)
class Placing:
    """The host of each stage, and what follows from it."""

    hosts: Hosts
    plan: CutPlan
    better: BetterPlan | None = None
    reason: str = ""
    """Why it is another plan than before; empty: it is the same, or the first."""


def host_problem(
    spec: PipelineSpec,
    profile: PipelineProfile,
    groups: Sequence[HostGroup],
    states: Mapping[str, HostState],
    max_latency_s: float | None,
) -> PipelineProblem | CutRefusal:
    """Return the problem whose nodes are hosts; PipelineError where the profile does not know enough."""
    machines = {group.name: found for group in groups if (found := _machine(profile, group)) is not None}
    free = {host: each for host, each in machines.items() if not states[host].fault}
    pinned = {stage.on for stage in spec.stages if is_pinned(stage)}
    used = {host: each for host, each in machines.items() if host in free or host in pinned}
    stages = tuple(_stage(spec, facts, used, free) for facts in profile.stages)
    refusal = _homeless(spec, profile, stages, states, machines)
    if refusal is not None:
        return refusal
    known = replace(
        profile,
        machines=tuple(_as_host(host, each, states[host]) for host, each in used.items()),
        links=tuple(_links(profile, used)),
        stages=stages,
    )
    planned = build_problem(spec, known, max_latency_s)
    return _too_large(spec, planned) or planned


def is_pinned(stage: StageSpec) -> bool:
    """Return whether the spec says where a stage is: sources and sinks are where they are."""
    return stage.is_placed or stage.role in (StageRole.SOURCE, StageRole.SINK)


def decide(
    planned: PipelineProblem,
    objective: Objective,
    before: PlacedBefore | None,
    digest: str,
    now: datetime,
) -> Placing | CutRefusal:
    """Return where stages are from now on: where they were, if that is possible and no other plan pays."""
    best = _solve(planned.problem, objective)
    if isinstance(best, CutRefusal):
        return best
    chosen = Placing(_hosts(planned, best), best)
    if before is None:
        return chosen
    kept = _evaluate(planned, before.hosts)
    if isinstance(kept, CutRefusal):
        return replace(chosen, reason="" if _left(planned, before.hosts) else kept.reason)
    hosts = _hosts(planned, kept)
    if before.digest != digest:
        return replace(chosen, reason="" if chosen.hosts == hosts else "spec.plan has changed")
    if not _pays(best, kept, objective):
        return Placing(hosts, kept)
    since = before.better_since or now
    if now - since < SETTLED:
        return Placing(hosts, kept, BetterPlan(since, chosen.hosts, best))
    return replace(chosen, reason=_gain(best, kept, objective))


def _machine(profile: PipelineProfile, group: HostGroup) -> MachineFacts | None:
    same = profile.machine(group.name)
    if same is not None or not group.device_class:
        return same
    return next((each for each in profile.machines if each.machine_class == group.device_class), None)


def _as_host(host: str, machine: MachineFacts, state: HostState) -> MachineFacts:
    memory = machine.memory_bytes if state.memory_bytes is None else int(state.memory_bytes)
    return replace(machine, name=host, memory_bytes=memory)


def _links(profile: PipelineProfile, used: Mapping[str, MachineFacts]) -> list[LinkFacts]:
    known = {(link.source, link.target): link for link in profile.links}
    pairs = [(one, two) for one in used for two in used if used[one].name != used[two].name]
    return [
        replace(link, source=one, target=two)
        for one, two in pairs
        if (link := known.get((used[one].name, used[two].name))) is not None
    ]


def _stage(
    spec: PipelineSpec,
    facts: StageFacts,
    used: Mapping[str, MachineFacts],
    free: Mapping[str, MachineFacts],
) -> StageFacts:
    """Return the facts of a stage by host: a pinned one has its own host, also while that is lost."""
    stage = next((each for each in spec.stages if each.name == facts.name), None)
    hosts = free if stage is None or not is_pinned(stage) else {stage.on: used.get(stage.on)}
    costs = {
        host: facts.costs[machine.name]
        for host, machine in hosts.items()
        if machine is not None and machine.name in facts.costs
    }
    return replace(facts, costs=costs)


def _homeless(
    spec: PipelineSpec,
    profile: PipelineProfile,
    stages: Sequence[StageFacts],
    states: Mapping[str, HostState],
    machines: Mapping[str, MachineFacts],
) -> CutRefusal | None:
    """Return why a stage has no host now although the profile has a time of it."""
    costs = {facts.name: facts.costs for facts in stages}
    for stage in spec.stages:
        facts = profile.stage(stage.name)
        if is_pinned(stage) or facts is None or costs[stage.name]:
            continue
        reasons = [f"{host}: {_why(facts, host, states, machines)}" for host in states]
        return CutRefusal(
            f"no host can run {stage.name}: {'; '.join(reasons)}",
            "bring a node back, add a host, or profile the stage on another one",
        )
    return None


def _why(
    facts: StageFacts, host: str, states: Mapping[str, HostState], machines: Mapping[str, MachineFacts]
) -> str:
    if states[host].fault:
        return states[host].fault
    if host not in machines:
        return "the profile has no machine of this name or class"
    return facts.unknown.get(machines[host].name, "the profile has no time of it there")


def _too_large(spec: PipelineSpec, planned: PipelineProblem) -> CutRefusal | None:
    """Return why the operator does not search: every pass of every Pipeline waits for a search."""
    problem = planned.problem
    if _is_decided(problem):
        return None
    if not spec.is_chain:
        what = "stages that join or branch are not planned in a cluster"
        hint = "state the host of every stage; fairlead pipeline plan FILE --out PLANNED writes them"
        return CutRefusal(what, hint)
    choices = {host for stage in problem.stages for host in stage.seconds}
    if len(choices) > MOST_HOSTS or not is_small(problem):
        what = f"{len(problem.stages)} stages on {len(choices)} hosts are too many to plan in a cluster"
        return CutRefusal(what, f"leave at most {MOST_HOSTS} hosts, or state the host of more stages")
    return None


def _is_decided(problem: CutProblem) -> bool:
    return all(len(stage.seconds) == 1 for stage in problem.stages)


@dataclass(frozen=True, eq=False, slots=True)
class _Asked:
    """A problem that equals every other with the same numbers; a problem itself has dictionaries."""

    problem: CutProblem
    objective: Objective
    text: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Asked) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def _solve(problem: CutProblem, objective: Objective) -> CutPlan | CutRefusal:
    return _solved(_Asked(problem, objective, f"{objective} {problem}"))


@lru_cache(maxsize=512)
def _solved(asked: _Asked) -> CutPlan | CutRefusal:
    """Return the best plan; most passes over a Pipeline ask for the one of the pass before."""
    problem = asked.problem
    if _is_decided(problem):  # nothing to choose, with joins neither
        outcome = evaluate(problem, [next(iter(stage.seconds)) for stage in problem.stages])
    else:
        outcome = plan_cut(problem, Solver.AUTO, asked.objective)
    if isinstance(outcome, CutPlan):
        return outcome
    return CutRefusal(_in_fields(outcome.reason), _in_fields(outcome.hint))


def _in_fields(text: str) -> str:
    """Return a reason with the field of the resource in place of the planner's."""
    return re.sub(r"max_latency_s ([0-9.]+)", r"maxLatency \1s", text).replace("max_latency_s", "maxLatency")


def _left(planned: PipelineProblem, hosts: Hosts) -> bool:
    """Return whether a stage was on a host that it cannot be on any more."""
    return any(hosts.get(stage.name) not in (None, *stage.seconds) for stage in planned.problem.stages)


def _evaluate(planned: PipelineProblem, hosts: Hosts) -> CutPlan | CutRefusal:
    lacking = [name for name in planned.stages if name not in hosts]
    if lacking:
        return CutRefusal(f"stage {lacking[0]} is new")
    plan = evaluate(planned.problem, [hosts[stage.name] for stage in planned.problem.stages])
    sink = planned.problem.sink
    if isinstance(plan, CutPlan) and sink is not None and hosts[sink.name] != sink.node:
        return CutRefusal(f"{sink.name} is on {sink.node} now")
    return plan if isinstance(plan, CutPlan) else CutRefusal(_in_fields(plan.reason))


def _hosts(planned: PipelineProblem, plan: CutPlan) -> dict[str, str]:
    return dict(zip(planned.stages, planned.nodes_of(plan), strict=True))


def _value(plan: CutPlan, objective: Objective) -> float:
    return plan.latency_s if objective is Objective.LATENCY else plan.period_s


def _pays(better: CutPlan, kept: CutPlan, objective: Objective) -> bool:
    return _value(better, objective) <= _value(kept, objective) * (1 - MARGIN) < _value(kept, objective)


def _gain(better: CutPlan, kept: CutPlan, objective: Objective) -> str:
    what = "latency" if objective is Objective.LATENCY else "period"
    saved = 1 - _value(better, objective) / _value(kept, objective)
    return f"the {what} of this plan has been {saved:.0%} smaller for {SETTLED.total_seconds():.0f} s"
