"""The problem of the planner from a pipeline and its profile, and the file with the plan in it."""

from dataclasses import replace

import pytest

from fairlead.errors import PipelineError
from fairlead.pipeline.plan.cut import SOURCE, CutPlan, CutSink
from fairlead.pipeline.plan.solve import plan_cut
from fairlead.pipeline.profile.facts import (
    EdgeFacts,
    LinkFacts,
    MachineFacts,
    PipelineProfile,
    StageCost,
    StageFacts,
)
from fairlead.pipeline.profile.planned_file import with_plan
from fairlead.pipeline.profile.problem import build_problem, unknowns
from fairlead.pipeline.spec import PipelineSpec
from fairlead.pipeline.yaml_file import parse_pipeline

HOSTS = 'hosts: {server: {address: "10.0.0.5:7070", class: big}}\n'
CHAIN = """pipeline: p
stages:
  - {name: camera, source: numbers}
  - {name: detect, run: "m:detect", replicas: 3}  # the slow one
  - name: count
    run: "m:count"
  - {name: log, sink: stdout}
"""
MACHINES = (MachineFacts("local", 2, 1000), MachineFacts("server", 8, 9000, "big"))
LINKS = (LinkFacts("local", "server", 1e6, 0.001), LinkFacts("server", "local", 2e6, 0.002))


def spec_of(text: str = CHAIN) -> PipelineSpec:
    """Return a pipeline with one other host."""
    return parse_pipeline((HOSTS + text).encode(), "p.yaml")


def facts(name: str, rate: float, **seconds: float) -> StageFacts:
    """Return a stage of 100 bytes with its seconds by node."""
    return StageFacts(name, rate, {node: StageCost(each, each, 100) for node, each in seconds.items()})


def profile_of(*stages: StageFacts, edges: tuple[EdgeFacts, ...] | None = None) -> PipelineProfile:
    """Return a profile; detect gets every frame, count every second one."""
    stages = stages or (
        facts("camera", 1.0, local=0.001),
        facts("detect", 1.0, local=0.05, server=0.01),
        facts("count", 0.5, local=0.002, server=0.001),
    )
    edges = edges or (
        EdgeFacts("camera", "detect", 3000.0, 1.0),
        EdgeFacts("detect", "count", 400.0, 0.5),
        EdgeFacts("count", "log", 60.0, 0.5),
    )
    return PipelineProfile("p", MACHINES, LINKS, stages, edges)


def test_a_chain_returns_to_its_source() -> None:
    planned = build_problem(spec_of(), profile_of(), 0.2)
    problem = planned.problem
    assert planned.stages == ("camera", "detect", "count", "log")
    assert (problem.source, problem.edges, problem.max_latency_s) == ("local", None, 0.2)
    assert problem.sink == CutSink("log", "local", 30.0)
    assert problem.hop_s == pytest.approx(0.0016)
    assert [stage.input_bytes for stage in problem.stages] == [0, 3000, 200]
    assert [dict(stage.seconds) for stage in problem.stages] == [
        {"local": 0.001},
        {"local": 0.05, "server": 0.01},
        {"local": 0.001, "server": 0.0005},
    ]
    assert [(node.name, node.memory_bytes) for node in problem.nodes] == [("local", 1000), ("server", 9000)]
    assert [node.slowness for node in problem.nodes] == pytest.approx([0.052 / 0.011, 1.0])
    assert [link.name for link in problem.links] == ["local->server", "server->local"]
    plan = plan_cut(problem)
    assert isinstance(plan, CutPlan)
    assert planned.nodes_of(plan) == ("local", "server", "server", "local")
    assert [hop.bytes for hop in plan.hops] == [3000.0, 30.0]


@pytest.mark.parametrize(
    ("change", "nodes"),
    [
        (('"m:detect"', '"m:detect", on: local'), {"local"}),
        (('"m:detect"', '"m:detect", on: big'), {"server"}),
        (('"m:detect"', '"m:detect"'), {"local", "server"}),
    ],
)
def test_a_stated_place_is_kept(change: tuple[str, str], nodes: set[str]) -> None:
    problem = build_problem(spec_of(CHAIN.replace(*change)), profile_of()).problem
    assert set(problem.stages[1].seconds) == nodes


def test_a_sink_elsewhere_is_the_last_stage() -> None:
    planned = build_problem(spec_of(CHAIN.replace("sink: stdout", "sink: stdout, on: server")), profile_of())
    assert planned.problem.sink is None
    assert planned.problem.stages[-1].name == "log"
    assert planned.problem.stages[-1].seconds == {"server": 0.0}
    assert planned.problem.stages[-1].input_bytes == 30.0


def test_stages_that_branch_are_a_graph() -> None:
    pairs = (("camera", "detect"), ("camera", "count"), ("detect", "log"), ("count", "log"))
    edges = f"edges: [{', '.join(f'{{from: {one}, to: {two}}}' for one, two in pairs)}]\n"
    sizes = tuple(
        EdgeFacts(one, two, size, 1.0) for (one, two), size in zip(pairs, (7.0, 8.0, 9.0, 10.0), strict=True)
    )
    problem = build_problem(spec_of(CHAIN + edges), profile_of(edges=sizes)).problem
    assert problem.edges is not None
    assert [(edge.before, edge.behind, edge.bytes) for edge in problem.edges] == [
        (0, 1, 7.0),
        (0, 2, 8.0),
        (1, 3, 9.0),
        (2, 3, 10.0),
    ]
    assert SOURCE not in {edge.before for edge in problem.edges}
    assert build_problem(spec_of(), profile_of(), as_graph=True).problem.edges is not None


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (profile_of(facts("camera", 1.0, local=0.1)), "the profile has no stage detect"),
        (
            profile_of(
                facts("camera", 1.0, local=0.1),
                replace(facts("detect", 1.0), unknown={"server": "no module m"}),
                facts("count", 1.0, local=0.1),
            ),
            r"stage detect: no time of it is known \(server: no module m\)",
        ),
        (
            profile_of(edges=(EdgeFacts("camera", "detect", 1.0, 1.0),)),
            "the profile has no edge detect->count",
        ),
        (replace(profile_of(), machines=MACHINES[1:]), "stage camera: the profile has no machine local"),
    ],
)
def test_a_profile_that_does_not_fit_is_refused(profile: PipelineProfile, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        build_problem(spec_of(), profile)


def test_what_is_not_known_is_said() -> None:
    stage = replace(facts("detect", 1.0, local=0.1), unknown={"server": "no module m"})
    profile = replace(profile_of(stage), links=LINKS[:1], notes=("host far is left out: no answer",))
    assert list(unknowns(profile)) == [
        "host far is left out: no answer",
        "detect on server is not known: no module m",
        "the link server->local is not known",
    ]


def test_the_file_keeps_its_text_beside_the_plan() -> None:
    spec = spec_of()
    nodes = {"camera": "local", "detect": "server", "count": "server", "log": "local"}
    text = with_plan((HOSTS + CHAIN).encode(), spec, nodes, {"detect": 2})
    assert text == HOSTS + CHAIN.replace(
        '{name: detect, run: "m:detect", replicas: 3}',
        '{on: server, name: detect, run: "m:detect", replicas: 2}',
    ).replace("  - name: count\n", "  - on: server\n    name: count\n")
    again = parse_pipeline(text.encode(), "p.yaml")
    assert {stage.name: stage.on for stage in again.stages} == nodes
    assert again.stage("detect").replicas == 2
    assert with_plan((HOSTS + CHAIN).encode(), spec, dict.fromkeys(nodes, "local"), {}) == HOSTS + CHAIN


def test_new_replicas_are_written_into_both_kinds_of_mappings() -> None:
    nodes = dict.fromkeys(("camera", "detect", "count", "log"), "local")
    text = with_plan((HOSTS + CHAIN).encode(), spec_of(), nodes, {"count": 4, "log": 2})
    again = parse_pipeline(text.encode(), "p.yaml")
    assert [stage.replicas for stage in again.stages] == [1, 3, 4, 2]
