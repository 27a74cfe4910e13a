"""Stages without a host are where the exact planner puts them, and stay there unless a move pays."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.pipeline.plan.cut import CutLink, CutNode, CutPlan, CutProblem, CutRefusal, CutStage
from fairlead.pipeline.plan.evaluate import evaluate
from fairlead.pipeline.plan.solve import Objective, plan_cut
from fairlead.pipeline.profile.problem import PipelineProblem
from fairlead.pipelineobjects.eligible import HostState, host_states
from fairlead.pipelineobjects.placing import PlacedBefore, Placing, decide, host_problem
from fairlead.pipelineobjects.resource import PipelineResource, read_resource
from tests.pipelineobjects.planned import MEBIBYTE, MILLISECONDS, SPEC, planned_pipeline, profile
from tests.pipelineobjects.worlds import NOW, Json

HOSTS = ("local", "edge", "server", "spare")
MACHINE = {"spare": "nano"}


def problem(resource: PipelineResource, lost: tuple[str, ...] = ()) -> PipelineProblem | CutRefusal:
    """Return the problem of a Pipeline of which some hosts are lost."""
    assert resource.plan is not None
    assert resource.plan.profile is not None
    groups = (resource.local, *resource.hosts)
    states = {each.name: HostState(each.name, "lost" if each.name in lost else "") for each in groups}
    limit = resource.plan.max_latency_s
    return host_problem(resource.spec, resource.plan.profile, groups, states, limit)


def placed(
    before: PlacedBefore | None = None,
    lost: tuple[str, ...] = (),
    now: datetime = NOW,
    objective: Objective = Objective.THROUGHPUT,
    resource: PipelineResource | None = None,
) -> Placing:
    """Return where stages are."""
    planned = problem(resource or read_resource(planned_pipeline()), lost)
    assert isinstance(planned, PipelineProblem), planned
    placing = decide(planned, objective, before, "d", now)
    assert isinstance(placing, Placing), placing
    return placing


def by_hand(hosts: tuple[str, ...]) -> CutProblem:
    """Return the problem of the Pipeline, written down."""

    def seconds(stage: str) -> dict[str, float]:
        row = MILLISECONDS[stage]
        return {host: row[MACHINE.get(host, host)] / 1e3 for host in hosts if MACHINE.get(host, host) in row}

    shared = ("detect", "count")
    slowness = {
        host: sum(seconds(stage)[host] for stage in shared)
        / sum(min(seconds(stage).values()) for stage in shared)
        for host in hosts
    }
    return CutProblem(
        "edge",
        tuple(CutNode(host, 4096 * MEBIBYTE, slowness[host]) for host in hosts),
        tuple(CutLink(one, two, 1e8, 0.001) for one in hosts for two in hosts if one != two),
        (
            CutStage("camera", 64 * MEBIBYTE, 0.0, {"edge": 0.001}),
            CutStage("detect", 64 * MEBIBYTE, 1e5, seconds("detect")),
            CutStage("count", 64 * MEBIBYTE, 1e3, seconds("count")),
            CutStage("log", 0, 100.0, {"local": 0.0}),
        ),
        hop_s=0.0016,
    )


@pytest.mark.parametrize("objective", Objective)
@pytest.mark.parametrize("lost", [(), ("server",), ("spare",), ("server", "spare")])
def test_the_plan_is_that_of_the_problem_written_by_hand(lost: tuple[str, ...], objective: Objective) -> None:
    hosts = tuple(host for host in HOSTS if host not in lost)
    plan = plan_cut(by_hand(hosts), objective=objective)
    assert isinstance(plan, CutPlan)
    placing = placed(lost=lost, objective=objective)
    assert placing.plan.period_s == pytest.approx(plan.period_s)
    assert placing.plan.latency_s == pytest.approx(plan.latency_s)
    assert tuple(placing.hosts.values()) == plan.assignment


def test_a_host_that_is_not_in_the_profile_gets_no_stage() -> None:
    resource = read_resource(planned_pipeline(text=SPEC.replace(", class: jetson-orin-nano", "")))
    assert placed(resource=resource).hosts["count"] != "spare"


def test_hosts_without_a_link_between_them_exchange_no_frames() -> None:
    """Two hosts of one class have the times of one machine, and no rate between them is known."""
    text = SPEC + "  - {name: other, class: jetson-orin-nano}\n"
    known = profile(detect={"edge": 60, "nano": 5}, count={"edge": 60, "nano": 5})
    hosts = placed(resource=read_resource(planned_pipeline(known, text))).hosts
    assert hosts["detect"] == hosts["count"] == "spare"


def pin(stage: int, host: str) -> Callable[[Json], None]:
    return lambda spec: spec["stages"][stage].update(host=host)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("lost", [(), HOSTS[1:]])
def test_a_pinned_stage_stays_also_while_its_host_is_lost(host: str, lost: tuple[str, ...]) -> None:
    body = planned_pipeline()
    pin(1, host)(body["spec"])
    hosts = placed(resource=read_resource(body), lost=lost).hosts
    assert hosts["detect"] == host
    assert hosts["count"] not in lost


def graph(spec: Json) -> None:
    spec["stages"].append({"name": "save", "sink": "null"})
    spec["edges"] = [
        {"from": one, "to": two}
        for one, two in (("camera", "detect"), ("detect", "count"), ("count", "log"), ("count", "save"))
    ]
    spec["plan"]["profile"]["edges"].append(
        {"source": "count", "target": "save", "bytes": 10, "rate": 1, "encode": ""}
    )


def all_pinned(spec: Json) -> None:
    graph(spec)
    pin(1, "server")(spec)
    pin(2, "server")(spec)


def twelve_hosts(spec: Json) -> None:
    nano = spec["plan"]["profile"]["machines"][3]
    for number in range(8):
        spec["hosts"].append({"name": f"x{number}", "class": nano["machine_class"]})


def small_hosts(spec: Json) -> None:
    for host in (*spec["hosts"], spec.setdefault("local", {})):
        host["resources"] = {"limits": {"memory": "63Mi"}}


REFUSED: dict[str, tuple[Callable[[Json], object], tuple[str, ...], str]] = {
    "a stage without a host": (
        lambda spec: spec["plan"]["profile"]["stages"][1]["costs"].pop("local"),
        HOSTS[1:],
        "no host can run detect: local: the profile has no time of it there; edge: lost; server: lost; spare",
    ),
    "a latency that no plan keeps": (
        lambda spec: spec["plan"].update(maxLatency="20ms"),
        (),
        "no plan keeps maxLatency 0.02s: the smallest possible latency is",
    ),
    "a graph": (graph, (), "stages that join or branch are not planned in a cluster"),
    "too many hosts": (twelve_hosts, (), "4 stages on 12 hosts are too many to plan in a cluster"),
    "too little memory": (small_hosts, (), "has 63 MiB of memory, and the stage needs 64 MiB"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_plan_says_why(case: str) -> None:
    edit, lost, reason = REFUSED[case]
    body = planned_pipeline()
    edit(body["spec"])
    resource = read_resource(body)
    assert resource.plan is not None
    assert resource.plan.profile is not None
    groups = (resource.local, *resource.hosts)
    states = host_states(groups, None, {}, NOW) | {name: HostState(name, "lost") for name in lost}
    outcome = host_problem(resource.spec, resource.plan.profile, groups, states, resource.plan.max_latency_s)
    if isinstance(outcome, PipelineProblem):
        refusal = decide(outcome, Objective.THROUGHPUT, None, "d", NOW)
        assert isinstance(refusal, CutRefusal)
        outcome = refusal
    assert reason in outcome.reason
    assert outcome.hint


def test_a_graph_with_a_host_for_every_stage_needs_no_search() -> None:
    body = planned_pipeline()
    all_pinned(body["spec"])
    assert placed(resource=read_resource(body)).plan.bottleneck == "server"


FIRST = {"camera": "edge", "detect": "spare", "count": "local", "log": "local"}
"""The best plan without the host server."""


def test_another_plan_is_made_once_it_has_been_better_for_a_minute() -> None:
    before = PlacedBefore(FIRST, "d")
    first = placed(before)
    assert (first.hosts, first.reason) == (FIRST, "")
    assert first.better is not None
    assert first.better.since == NOW
    assert first.better.hosts["detect"] == "server"
    waiting = PlacedBefore(FIRST, "d", NOW)
    assert placed(waiting, now=NOW + timedelta(seconds=59)).hosts == FIRST
    last = placed(waiting, now=NOW + timedelta(seconds=60))
    assert last.hosts["detect"] == "server"
    assert last.better is None
    assert last.reason == "the period of this plan has been 33% smaller for 60 s"


@pytest.mark.parametrize(("detect_ms", "moves"), [(26.5, True), (27.5, False)])
def test_a_plan_that_saves_too_little_is_not_made(detect_ms: float, moves: bool) -> None:
    """Server takes some 32.4 ms of each frame, with its hops: 15 % less is 27.6 ms, hops included."""
    known = profile(detect={"edge": 60, "server": 32.0, "nano": detect_ms})
    resource = read_resource(planned_pipeline(known))
    now = placed(PlacedBefore({**FIRST, "detect": "server"}, "d"), resource=resource)
    assert (now.better is not None) is moves
    assert now.hosts["detect"] == "server"


def test_another_spec_of_the_plan_is_planned_at_once() -> None:
    now = placed(PlacedBefore(FIRST, "another"))
    assert now.hosts["detect"] == "server"
    assert now.reason == "spec.plan has changed"


def test_a_lost_host_is_left_at_once() -> None:
    hosts = placed().hosts
    assert hosts["detect"] == "server"
    now = placed(PlacedBefore(hosts, "d"), lost=("server",))
    assert "server" not in now.hosts.values()


events = st.lists(
    st.tuples(st.integers(1, 50), st.sampled_from(HOSTS[1:]), st.booleans()), min_size=1, max_size=30
)


@settings(max_examples=60, deadline=None)
@given(events)
def test_stages_move_at_most_once_a_minute_unless_their_host_is_lost(
    history: list[tuple[int, str, bool]],
) -> None:
    """Hosts come and go at any times; the plan of now is always possible."""
    resource, now, lost = read_resource(planned_pipeline()), NOW, set[str]()
    before, settled = PlacedBefore(placed().hosts, "d"), NOW - timedelta(hours=1)
    for seconds, host, is_lost in history:
        now += timedelta(seconds=seconds)
        lost = lost | {host} if is_lost else lost - {host}
        planned = problem(resource, tuple(lost))
        assert isinstance(planned, PipelineProblem)
        placing = decide(planned, Objective.THROUGHPUT, before, "d", now)
        assert isinstance(placing, Placing)
        free = {placing.hosts["detect"], placing.hosts["count"]}
        assert not free & lost
        assert isinstance(evaluate(planned.problem, list(placing.hosts.values())), CutPlan)
        if placing.hosts != before.hosts:
            forced = {before.hosts["detect"], before.hosts["count"]} & lost
            assert forced or now - settled >= timedelta(seconds=60)
            settled = now
        since = placing.better.since if placing.better else None
        before = PlacedBefore(placing.hosts, "d", since)
