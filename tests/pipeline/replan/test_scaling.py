"""What scaling reads from the status of a run, and what the replicas of a file become."""

from typing import Any

import pytest

from fairlead.errors import PipelineError
from fairlead.pipeline.check import check_structure
from fairlead.pipeline.control import stage_from_json, stage_to_json
from fairlead.pipeline.fuse import plan_workers, replace_spec
from fairlead.pipeline.replan.following import ChangeRefusal, LiveChange, live_change, with_present_replicas
from fairlead.pipeline.replan.scaling import RunScaling, ScaledStage, room_of, with_replicas
from fairlead.pipeline.spec import PipelineSpec, ReplicaScale
from fairlead.pipeline.yaml_file import parse_pipeline
from fairlead.units import Seconds

TEXT = """
pipeline: p
hosts:
  a: {address: "10.0.0.1:7070"}
  b: {address: "10.0.0.2:7070"}
stages:
  - {name: camera, source: numbers}
  - {name: detect, run: "m:detect", on: a, replicas: {min: 1, max: 3, up_after: 2s}}
  - {name: count, run: "m:count"}
  - {name: log, sink: "null"}
"""
SCALE = "replicas: {min: 1, max: 3, up_after: 2s}"


def read(text: str = TEXT) -> PipelineSpec:
    """Return the pipeline of a text."""
    return parse_pipeline(text.encode(), "p.yaml")


def entry(name: str, host: str = "local", busy: float = 0.0, workers: int = 1) -> dict[str, Any]:
    """Return a stage of a status."""
    names = [f"{name}/{index}" for index in range(workers)]
    return {"name": name, "hosts": [host], "busy": busy, "workers": names}


def status_of(busy: float, dropped: int = 0, cores: int | None = 4, age: float = 0.1) -> dict[str, Any]:
    """Return the status of a run."""
    edge = {"from": "camera", "to": "detect", "rate": 20.0, "depth": 8, "size": 8, "age": age}
    return {
        "cores": 2,
        "hosts": {"a": {"cores": cores}, "b": {}},
        "stages": [entry("camera"), entry("detect", "a", busy), entry("count", "a", 0.6), entry("log")],
        "edges": [edge | {"dropped": {"oldest": dropped, "sampled": 999}}],
    }


def test_a_stage_grows_with_its_load_and_says_so() -> None:
    scaling, spec = RunScaling(), read()
    changes = [scaling.propose(status_of(1.0, 10 * now), spec, float(now)) for now in range(1, 4)]
    assert changes[:2] == [None, None]
    change = changes[2]
    assert change is not None
    reason = "10 frames/s were dropped before it for 2s"
    assert change == ScaledStage("detect", 1, 3, reason)
    scaling.begin(change)
    scaling.on_move_ended(done=True, now=6.0)
    assert scaling.document(with_replicas(spec, change)) == [
        {
            "stage": "detect",
            "replicas": 3,
            "min": 1,
            "max": 3,
            "changes": 1,
            "last": {"from": 1, "to": 3, "reason": reason},
            "held_by": "",
        }
    ]


def test_what_was_given_up_is_no_change() -> None:
    scaling, spec = RunScaling(), read()
    changes = [scaling.propose(status_of(1.0, age=3.0), spec, float(now)) for now in range(1, 4)]
    assert changes[-1] is not None
    scaling.begin(changes[-1])
    scaling.on_move_ended(done=False, now=3.0)
    assert (scaling.document(spec)[0]["changes"], scaling.document(spec)[0]["last"]) == (0, None)


@pytest.mark.parametrize(
    ("cores", "busy", "room"), [(4, 1.0, 3), (4, 0.2, 4), (2, 1.0, 1), (1, 1.0, 1), (None, 1.0, None)]
)
def test_cores_bound_replicas_on_the_host_of_the_stage(cores: int | None, busy: float, room: int) -> None:
    assert room_of(read().stage("detect"), status_of(busy, cores=cores)) == room


def test_pinned_replicas_share_their_cores() -> None:
    pinned = read(TEXT.replace(SCALE, f"{SCALE}, cores: [0, 1]")).stage("detect")
    assert room_of(pinned, status_of(0.9)) == 2


def test_one_replica_is_wired_as_several_are() -> None:
    plan = plan_workers(read())
    assert [worker.name for worker in plan.workers] == ["camera", "detect/0", "count+log"]
    grown = replace_spec(plan, with_replicas(plan.spec, ScaledStage("detect", 1, 2, "")), 1)
    assert [worker.name for worker in grown.workers] == ["camera", "detect/0@1", "detect/1@1", "count+log"]
    assert {link.path for link in grown.links} == {1}, "all links of an edge change together"
    shrunk = replace_spec(grown, plan.spec, 2)
    assert [worker.name for worker in shrunk.workers] == ["camera", "detect/0@2", "count+log"]
    assert plan.marked == grown.marked == shrunk.marked


@pytest.mark.parametrize(
    ("replicas", "answer"),
    [
        (SCALE.replace("3,", "6,"), LiveChange(())),
        (SCALE.replace("min: 1", "min: 2"), LiveChange(())),
        (SCALE.replace("2s", "9s"), LiveChange(())),
        ("replicas: 2", LiveChange(("detect",))),
        (
            "replicas: 1",
            ChangeRefusal(
                "stage detect has 1 in place of 1 to 3 replicas: from one to several, and back, its "
                "neighbours change as well"
            ),
        ),
    ],
)
def test_bounds_change_while_it_runs(replicas: str, answer: LiveChange | ChangeRefusal) -> None:
    assert live_change(read(), read(TEXT.replace(SCALE, replicas))) == answer


def test_a_changed_file_keeps_the_replicas_of_now() -> None:
    running = with_replicas(read(), ScaledStage("detect", 1, 3, ""))
    for bounds, kept in (("max: 6", 3), ("max: 2", 2)):
        changed = with_present_replicas(read(TEXT.replace("max: 3", bounds)), running)
        assert changed.stage("detect").replicas == kept
    assert (
        with_present_replicas(read(TEXT.replace(SCALE, "replicas: 2")), running).stage("detect").replicas == 2
    )
    assert live_change(read(), read(TEXT.replace("on: a", "on: b"))) == LiveChange(("detect",))


def test_a_stage_travels_with_its_bounds() -> None:
    stage = read().stage("detect")
    assert stage.scale == ReplicaScale(1, 3, up_after=Seconds(2.0))
    assert stage_from_json(stage_to_json(stage)) == stage


@pytest.mark.parametrize(
    ("replicas", "text"),
    [
        ("{min: 1}", "replicas that follow the load need a max"),
        ("{min: 3, max: 2}", "replicas: max 2 is below min 3"),
        ("{min: 0, max: 2}", "min: 0 is not a whole number from 1 to 64"),
        ("{max: 65}", "max: 65 is not a whole number from 1 to 64"),
        ("{max: 2, age: 0s}", "replicas: age: 0s: a time above 0 is needed"),
        ("{max: 2, up_after: 5}", "up_after: 5: a time needs a unit"),
        ("{max: 2, most: 5}", "replicas has no key 'most'"),
        ("many", "replicas: 'many' is not a whole number from 1 to 64"),
        ("true", "replicas: True is not a whole number from 1 to 64"),
    ],
)
def test_nonsense_is_refused(replicas: str, text: str) -> None:
    with pytest.raises(PipelineError, match=r"p.yaml:8: ") as error:
        read(TEXT.replace(SCALE, f"replicas: {replicas}"))
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (
            "source: numbers}",
            "source: numbers, replicas: {max: 2}}",
            "a source has neither replicas nor batches",
        ),
        ('"m:count"}', '"m:count", replicas: 2}', "edge detect->count: replicas follow replicas"),
        (
            'sink: "null"}',
            'sink: "null"}\n  - {name: more, sink: "null"}\nedges: [{from: camera, to: detect}, '
            "{from: detect, to: count}, {from: count, to: log}, {from: count, to: more}]",
            "replicas that follow the load need a chain",
        ),
    ],
)
def test_where_replicas_cannot_be(old: str, new: str, text: str) -> None:
    problems = check_structure(read(TEXT.replace(old, new)))
    assert any(text in problem.what for problem in problems)
