"""Which changes of a file a run follows, and what becomes of its processes."""

import pytest

from fairlead.pipeline.fuse import plan_workers, replace_spec
from fairlead.pipeline.replan.following import ChangeRefusal, LiveChange, inner_stages, live_change
from fairlead.pipeline.spec import PipelineSpec
from fairlead.pipeline.yaml_file import parse_pipeline

TEXT = """
pipeline: p
hosts:
  a: {address: "10.0.0.1:7070", class: jetson}
  b: {address: "10.0.0.2:7070"}
stages:
  - {name: camera, source: numbers, on: a, options: {rate: 30}}
  - {name: blur, run: "m:blur"}
  - {name: detect, run: "m:detect", on: b, replicas: 2}
  - {name: log, sink: jsonl, options: {path: out.jsonl}}
"""
B2 = ("10.0.0.2:7070", "10.0.0.3:7070")


def spec(*changes: tuple[str, str]) -> PipelineSpec:
    """Return the pipeline with changes of its text."""
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse_pipeline(text.encode(), "p.yaml")


@pytest.mark.parametrize(
    ("change", "stages"),
    [
        (("class: jetson", "class: pi"), ()),
        (("pipeline: p", "# a line more\npipeline: p"), ()),
        (B2, ("detect",)),
        (('m:blur"', 'm:blur", on: b'), ("blur",)),
        (('m:blur"', 'm:blur", timeout: 1s'), ("blur",)),
        (("replicas: 2", "replicas: 4"), ("detect",)),
        (("on: b, replicas", "on: c, replicas"), ("detect",)),
        (("on: b, replicas", "on: d, replicas"), ()),
    ],
)
def test_what_moves(change: tuple[str, str], stages: tuple[str, ...]) -> None:
    more = '  c: {address: "10.0.0.9:7070"}\n  d: {address: "10.0.0.2:7070"}\nstages:'
    assert live_change(spec(), spec(("stages:", more), change)) == LiveChange(stages)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("pipeline: p", "pipeline: q"), "the pipeline p is named q now"),
        (("pipeline: p", "fuse: false\npipeline: p"), "fuse has changed"),
        (("rate: 30", "rate: 60"), "source camera has changed: options"),
        (("out.jsonl", "other.jsonl"), "sink log has changed: options"),
        (("10.0.0.1", "10.0.0.4"), "source camera is at another address: sources and sinks do not move"),
        (
            ("replicas: 2", "replicas: 1"),
            "stage detect has 1 in place of 2 replicas: from one to several, and back",
        ),
        (("replicas: 2", "replicas: 2, ordered: false"), "stage detect has changed: ordered"),
        (("name: blur", "name: soften"), "stage soften is new"),
        (('  - {name: blur, run: "m:blur"}\n', ""), "stage blur is gone"),
        (('run: "m:blur"', "sink: stdout"), "stage blur is a sink now"),
        (
            (
                "options: {path: out.jsonl}}",
                "options: {path: out.jsonl}}\nedges: [{from: camera, to: blur, depth: 2}]",
            ),
            "an edge has changed",
        ),
    ],
)
def test_what_waits_until_the_run_is_started_again(change: tuple[str, str], reason: str) -> None:
    refusal = live_change(spec(), spec(change))
    assert isinstance(refusal, ChangeRefusal)
    assert refusal.reason.startswith(reason)


def test_stages_that_join_do_not_move() -> None:
    edges = """options: {path: out.jsonl}}
edges:
  - {from: camera, to: blur}
  - {from: camera, to: detect}
  - {from: blur, to: log}
  - {from: detect, to: log}
"""
    graph = ("options: {path: out.jsonl}}", edges)
    refusal = live_change(spec(graph), spec(graph, B2))
    assert refusal == ChangeRefusal("stage detect has changed, and stages that join or branch cannot move")
    assert live_change(spec(graph), spec(graph, ("class: jetson", "class: pi"))) == LiveChange(())


def test_processes_stay_where_place_and_settings_stay() -> None:
    old = spec()
    plan = plan_workers(old, inner_stages(old))
    assert [each.name for each in plan.workers] == ["camera", "blur", "detect/0", "detect/1", "log"]
    renamed = replace_spec(plan, spec(("  b:", "  c:"), ("on: b", "on: c")), 1)
    assert [each.name for each in renamed.workers] == [each.name for each in plan.workers]
    assert [each.host for each in renamed.workers] == ["a", "local", "c", "c", "local"]
    assert renamed.links == plan.links
    moved = replace_spec(plan, spec(B2), 1)
    assert [each.name for each in moved.workers] == ["camera", "blur", "detect/0@1", "detect/1@1", "log"]
    assert [each.place for each in moved.workers][1:4] == ["local", "10.0.0.3:7070", "10.0.0.3:7070"]
    assert [link.path for link in moved.links] == [0, 1, 1, 1, 1]
    fewer = replace_spec(plan, spec(("  b:", "  b2:"), ("on: b, replicas: 2", "on: b2, replicas: 3")), 1)
    assert [each.name for each in fewer.workers][2:5] == ["detect/0@1", "detect/1@1", "detect/2@1"]


def test_replicas_before_a_stage_that_moves_are_replaced() -> None:
    last = ('name: detect, run: "m:detect", on: b, replicas: 2', 'name: detect, run: "m:detect", replicas: 2')
    behind = ("  - {name: log", '  - {name: count, run: "m:count", on: b}\n  - {name: log')
    old = spec(last, behind)
    plan = plan_workers(old, inner_stages(old))
    moved = replace_spec(plan, spec(last, behind, B2), 1)
    names = ["camera", "blur", "detect/0@1", "detect/1@1", "count@1", "log"]
    assert [each.name for each in moved.workers] == names, "one process says where the new path begins"
