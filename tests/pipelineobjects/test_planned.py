"""A Pipeline with a plan in a cluster: placed, planned again when nodes come and go, explained."""

import copy
from datetime import timedelta

import pytest

from fairlead.pipeline.profile.facts import PIPELINE_PROFILES
from fairlead.pipelineobjects.plan_spec import plan_body, read_plan
from tests.pipelineobjects.planned import SPEC, places, planned_cluster, profile
from tests.pipelineobjects.worlds import Cluster, Json, bring_back, lose

FIRST = {"camera": "edge", "detect": "server", "count": "spare", "log": "local"}
WITHOUT_SERVER = {"camera": "edge", "detect": "spare", "count": "local", "log": "local"}
SERVER = 1
"""The number of its node."""


@pytest.fixture
def cluster() -> Cluster:
    """Return a cluster whose Pipeline runs by its first plan."""
    cluster = planned_cluster()
    cluster.live()
    return cluster


def pass_time(cluster: Cluster, seconds: float) -> None:
    cluster.now += timedelta(seconds=seconds)
    cluster.live()


def moved(cluster: Cluster) -> list[str]:
    """Return what was said of moves, each once."""
    return list(dict.fromkeys(each.message for each in cluster.events if each.reason == "StagesMoved"))


def test_stages_without_a_host_are_placed(cluster: Cluster) -> None:
    assert places(cluster) == FIRST
    assert cluster.says("Planned") == (
        "True Placed: local: log; edge: camera; server: detect; spare: count; "
        "period 21.6 ms, latency 31.8 ms, limited by server"
    )
    assert sorted(cluster.pods()) == ["edge-a", "local", "server-a", "spare-a"]
    placement = cluster.resource["status"]["placement"]
    assert (placement["periodSeconds"], placement["bottleneck"]) == (pytest.approx(0.0216), "server")
    assert not {"better", "unavailable"} & placement.keys()
    assert moved(cluster) == []
    pass_time(cluster, 3600)
    assert cluster.settle() == []


def test_the_coordinator_reads_the_hosts_of_the_plan(cluster: Cluster) -> None:
    (file,) = (each for (kind, _), each in cluster.objects.items() if kind == "ConfigMap")
    assert '"on": "server"' in file["data"]["pipeline.yaml"]
    assert "seconds" not in file["data"]["pipeline.yaml"]


def test_stages_leave_a_lost_node_and_come_back_when_it_pays(cluster: Cluster) -> None:
    lose(cluster.nodes[SERVER], cluster.now)
    assert cluster.reconcile().again_after == pytest.approx(30)
    pass_time(cluster, 29)
    assert places(cluster) == FIRST
    pass_time(cluster, 1)
    assert places(cluster) == WITHOUT_SERVER
    assert moved(cluster) == [
        "detect moves from server to spare, count moves from spare to local: node big-1 is lost; "
        "detect, count open again; the pod of server ends"
    ]
    unavailable = cluster.resource["status"]["placement"]["unavailable"]
    assert unavailable == [{"host": "server", "reason": "node big-1 is lost"}]
    bring_back(cluster.nodes[SERVER], cluster.now)
    cluster.live()
    assert places(cluster) == WITHOUT_SERVER
    better = cluster.resource["status"]["placement"]["better"]
    assert better["moves"] == [
        {"stage": "detect", "from": "spare", "to": "server"},
        {"stage": "count", "from": "local", "to": "spare"},
    ]
    assert better["cost"] == "detect, count open again; the pod of server begins"
    assert cluster.reconcile().again_after == pytest.approx(60)
    pass_time(cluster, 59)
    assert cluster.settle() == []
    pass_time(cluster, 1)
    assert places(cluster) == FIRST
    assert moved(cluster)[1:] == [
        "detect moves from spare to server, count moves from local to spare: the period of this plan has "
        "been 33% smaller for 60 s; detect, count open again; the pod of server begins"
    ]


def test_a_node_that_comes_and_goes_moves_nothing(cluster: Cluster) -> None:
    lose(cluster.nodes[SERVER], cluster.now)
    pass_time(cluster, 31)
    for _ in range(5):
        bring_back(cluster.nodes[SERVER], cluster.now)
        pass_time(cluster, 59)
        assert places(cluster) == WITHOUT_SERVER
        lose(cluster.nodes[SERVER], cluster.now - timedelta(seconds=30))
        cluster.live()
        assert "better" not in cluster.resource["status"]["placement"]


def test_a_node_that_is_deleted_is_left_at_once(cluster: Cluster) -> None:
    del cluster.nodes[SERVER]
    cluster.live()
    assert places(cluster) == WITHOUT_SERVER
    assert "no node has the labels room=rack" in moved(cluster)[0]


def test_a_cordon_moves_nothing_that_runs(cluster: Cluster) -> None:
    for each in cluster.pods().values():
        each["spec"]["nodeName"] = {"server-a": "big-1"}.get(each["spec"]["hostname"], "n1")
    cluster.nodes[SERVER]["spec"]["unschedulable"] = True
    cluster.live()
    assert places(cluster) == FIRST


def test_a_stage_that_is_pinned_elsewhere_moves_there(cluster: Cluster) -> None:
    cluster.change(lambda spec: spec["stages"][1].update(host="edge"))
    cluster.live()
    assert places(cluster)["detect"] == "edge"
    assert "detect moves from server to edge" in moved(cluster)[0]
    assert "the spec has changed; " in moved(cluster)[0]


def test_another_objective_is_planned_at_once(cluster: Cluster) -> None:
    slow_link = profile(rate=1e5)
    cluster.change(lambda spec: spec.update(plan=plan_body(slow_link, "latency", None)))
    cluster.live()
    assert set(places(cluster).values()) <= {"edge", "local"}


def no_profile(spec: Json) -> None:
    spec["plan"].pop("profile", None)


def new_stage(spec: Json) -> None:
    spec["stages"].insert(2, {"name": "track", "run": "code.py:track"})


def little_time(spec: Json) -> None:
    spec["plan"]["maxLatency"] = "10ms"


NO_PLAN = {
    "no profile": (no_profile, "ProfileMissing", "spec.plan has no profile: fairlead pipeline profile FILE"),
    "a stage that was not profiled": (
        new_stage,
        "ProfileMissing",
        "the profile has no edge detect->track: make a new one",
    ),
    "no time": (little_time, "NoPlan", "no plan keeps maxLatency 0.01s:"),
}


@pytest.mark.parametrize("case", NO_PLAN)
def test_without_a_plan_nothing_is_made_and_the_condition_says_why(case: str) -> None:
    edit, reason, message = NO_PLAN[case]
    cluster = planned_cluster()
    edit(cluster.resource["spec"])
    cluster.live()
    assert cluster.objects == {}
    assert cluster.says("Accepted").startswith("True Valid")
    assert cluster.says("Planned").startswith(f"False {reason}: {message}")
    assert cluster.says("Ready") == f"False {reason}: the stages have no host yet"
    assert next(each.type for each in cluster.events if each.reason == reason) == "Warning"
    pass_time(cluster, 3600)
    assert cluster.settle() == []


@pytest.mark.parametrize("edit", [no_profile, little_time])
def test_what_runs_goes_on_without_a_plan(cluster: Cluster, edit: object) -> None:
    assert callable(edit)
    cluster.change(edit)
    writes = cluster.live()
    assert not [each for each in writes if "Pod" in each]
    assert places(cluster) == FIRST
    assert cluster.says("Planned").endswith("the stages stay where they are")
    assert cluster.says("Ready").startswith("True Running")


def test_a_spec_that_is_refused_forgets_no_plan(cluster: Cluster) -> None:
    before = copy.deepcopy(cluster.resource["spec"])
    cluster.change(lambda spec: spec["stages"][1].update(run="no function"))
    cluster.change(lambda spec: spec["stages"][0].update(host="nowhere"))
    cluster.live()
    assert cluster.says("Accepted").startswith("False")
    assert places(cluster) == FIRST
    cluster.resource["spec"] = before
    cluster.change(lambda spec: None)
    assert not [each for each in cluster.live() if "Pod" in each]


def test_a_run_that_has_ended_stays_ended_when_nodes_change(cluster: Cluster) -> None:
    cluster.set_pod("local", phase="Succeeded")
    cluster.live()
    assert cluster.says("Ready").startswith("False Completed")
    del cluster.nodes[SERVER]
    assert not [each for each in cluster.live() if "Pod" in each]
    assert cluster.says("Ready").startswith("False Completed")
    assert places(cluster) == FIRST


def test_a_pipeline_without_a_plan_looks_at_no_node() -> None:
    cluster = planned_cluster()
    del cluster.resource["spec"]["plan"]
    cluster.live()
    assert places(cluster) == {"camera": "edge", "detect": "local", "count": "local", "log": "local"}
    cluster.nodes.clear()
    assert cluster.settle() == []
    assert "placement" not in cluster.resource["status"]


def test_certificates_for_some_hosts_alone_are_refused_where_a_plan_chooses() -> None:
    text = SPEC.replace("name: server, nodeSelector", "name: server, tlsSecret: mine, nodeSelector")
    cluster = planned_cluster(text=text)
    cluster.live()
    assert "tlsSecret is not stated for local, edge, spare: state it for every host" in cluster.says(
        "Accepted"
    )


def test_a_profile_comes_back_from_the_resource_as_it_was_stored() -> None:
    read = read_plan(plan_body(profile(), "latency", "1.5s"))
    assert read is not None
    assert read.profile is not None
    assert PIPELINE_PROFILES.encode(read.profile) == PIPELINE_PROFILES.encode(profile())
    assert (read.objective, read.max_latency_s) == ("latency", 1.5)
