"""Replicas that follow the load, as the operator sees them: the run decides, status and events say so."""

from typing import Any

from fairlead.pipeline.spec import ReplicaScale
from fairlead.pipelineobjects.problems import check_resource
from fairlead.pipelineobjects.resource import read_resource
from tests.pipelineobjects.test_from_file import TEXT, resource
from tests.pipelineobjects.worlds import SPEC, Cluster, pipeline

SCALED = SPEC.replace("replicas: 2", "scale: {min: 1, max: 4}")
REASON = "frames were 1.2s old for 30s"


def says(replicas: int, changes: int, before: int = 0, most: int = 4) -> list[dict[str, Any]]:
    """Return what a run says of its stage."""
    last = {"from": before, "to": replicas, "reason": REASON} if before else None
    body = {"stage": "blur", "replicas": replicas, "min": 1, "max": most}
    return [{**body, "changes": changes, "last": last, "held_by": "max is 4"}]


def scaled_cluster() -> Cluster:
    """Return a cluster in which a Pipeline runs whose stage blur follows its load."""
    cluster = Cluster(pipeline(SCALED))
    cluster.run.scaling = says(1, 0)
    cluster.pass_time(5)
    return cluster


def scaled_events(cluster: Cluster) -> list[str]:
    """Return the events about replicas."""
    return [each.message for each in cluster.events if each.reason == "Scaled"]


def test_the_run_is_looked_at_now_and_then_and_nothing_is_written_while_nothing_changes() -> None:
    cluster = scaled_cluster()
    assert [*cluster.asked.values()] == [15.0]
    entry = {"stage": "blur", "replicas": 1, "min": 1, "max": 4, "changes": 0}
    assert cluster.resource["status"]["scaling"] == [entry]
    assert cluster.pass_time(60) == []
    assert scaled_events(cluster) == []


def test_each_change_is_one_write_and_one_event() -> None:
    cluster = scaled_cluster()
    cluster.run.scaling = says(3, 1, before=1)
    assert cluster.pass_time(30) == ["status"]
    assert scaled_events(cluster) == [f"blur scaled from 1 to 3: {REASON}"]
    (entry,) = cluster.resource["status"]["scaling"]
    assert (entry["replicas"], entry["reason"]) == (3, REASON)
    cluster.run.is_reached = False
    assert cluster.pass_time(30) == []
    cluster.run.is_reached = True
    cluster.run.scaling = says(1, 0)  # the coordinator began again
    assert cluster.pass_time(5) == ["status"]
    cluster.run.scaling = says(2, 1, before=1)
    assert cluster.pass_time(5) == ["status"]
    assert scaled_events(cluster)[1:] == [f"blur scaled from 1 to 2: {REASON}"]


def test_a_page_of_an_older_run_and_nonsense_say_nothing() -> None:
    cluster = scaled_cluster()
    for said in ([], [{"stage": "blur"}], [{"stage": "blur", "replicas": "many"}], 7):
        cluster.run.scaling = said
        assert cluster.pass_time(5) == []


def test_other_bounds_are_followed_by_the_run_and_change_no_pod() -> None:
    cluster = scaled_cluster()
    cluster.change(lambda spec: spec["stages"][1]["scale"].update(max=6))
    before = cluster.pods()
    wrote = cluster.pass_time(30)
    assert not [each for each in wrote if each.startswith(("create", "delete"))]
    assert {name: each["spec"] for name, each in cluster.pods().items()} == {
        name: each["spec"] for name, each in before.items()
    }
    assert cluster.addresses()["server"] == "server-a"


def test_without_such_replicas_no_page_is_read_and_a_drained_run_says_nothing_of_them() -> None:
    cluster = Cluster(pipeline())
    cluster.pass_time(5)
    assert cluster.asked == {}
    assert "scaling" not in cluster.resource["status"]
    cluster = scaled_cluster()
    cluster.change(lambda spec: spec.update(suspend=True))
    cluster.pass_time(60)
    assert cluster.asked == {}
    assert "scaling" not in cluster.resource["status"]


def test_the_mapping_of_a_file_is_a_field_of_its_own() -> None:
    """A field of Kubernetes has one type: a number, or bounds."""
    key = "timeout: 500ms"
    made = resource(TEXT.replace(key, "replicas: {min: 2, max: 4, up_after: 9s}"))
    stage = made["spec"]["stages"][1]
    assert stage["scale"] == {"min": 2, "max": 4, "up_after": "9s"}
    assert "replicas" not in stage
    read = read_resource(made)
    assert check_resource(read) == []
    assert read.document["stages"][1]["replicas"] == stage["scale"]
    scale = read.spec.stage("bright").scale
    assert isinstance(scale, ReplicaScale)
    assert (scale.least, scale.most, scale.up_after) == (2, 4, 9.0)
