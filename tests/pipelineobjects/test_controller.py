"""The life of a Pipeline in a cluster: made, ready, changed, renewed, suspended, ended, deleted."""

from datetime import timedelta

import pytest

from tests.pipelineobjects.worlds import NOW, Cluster, Json, pipeline


@pytest.fixture
def cluster() -> Cluster:
    """Return a cluster with a new Pipeline."""
    return Cluster(pipeline())


def steps(writes: list[str]) -> list[str]:
    """Return what happened to pods, by host."""
    return [
        each.replace("/count-", " ").rpartition("-")[0]
        for each in writes
        if "Pod/" in each and "change" not in each
    ]


def set_rate(spec: Json) -> None:
    spec["stages"][0]["options"]["rate"] = 5


def set_node(spec: Json) -> None:
    spec["hosts"][1]["nodeSelector"] = {"room": "rack"}


def test_a_pipeline_becomes_its_objects_and_then_nothing_is_written(cluster: Cluster) -> None:
    first = cluster.reconcile()
    kinds = [each["kind"] for each in first.objects]
    assert kinds == ["Secret"] * 4 + ["ConfigMap", "Service", "NetworkPolicy"] + ["Pod"] * 3
    assert cluster.says("Accepted") == "True Valid: 3 stages and 2 edges are sound"
    assert cluster.says("Planned") == "True Placed: local: log; edge: camera; server: blur"
    assert cluster.says("Ready") == "False Starting: 0 of 3 pods are ready"
    assert cluster.says("Progressing").startswith("True Creating")
    cluster.live()
    assert cluster.says("Ready") == "True Running: 3 of 3 pods are ready"
    assert cluster.says("Progressing").startswith("False Stable")
    assert cluster.resource["status"]["pods"] == "3/3"
    cluster.now += timedelta(hours=1)
    made = list(cluster.issuer.made)
    assert cluster.settle() == []
    assert cluster.issuer.made == made


def test_a_host_without_a_stage_gets_no_pod(cluster: Cluster) -> None:
    cluster.live()
    assert sorted(cluster.pods()) == ["edge-a", "local", "server-a"]


def test_a_pipeline_on_one_pod_needs_no_certificates() -> None:
    text = "stages: [{name: a, source: numbers}, {name: b, sink: 'null'}]"
    cluster = Cluster(pipeline(text))
    cluster.live()
    assert sorted(kind for kind, _ in cluster.objects) == ["ConfigMap", "NetworkPolicy", "Pod", "Service"]
    assert cluster.issuer.made == []


def test_another_file_replaces_the_coordinator_alone(cluster: Cluster) -> None:
    cluster.live()
    old = cluster.file()["data"]
    cluster.change(set_rate)
    cluster.settle()
    assert cluster.file()["data"] == old, "the coordinator that ends still has its file"
    assert cluster.says("Ready").startswith("False Updating")
    assert cluster.says("Progressing").startswith("True Draining")
    writes = cluster.live()
    assert steps(writes) == ["create Pod local"]
    assert '"rate": 5' in cluster.file()["data"]["pipeline.yaml"]
    assert cluster.says("Ready").startswith("True Running")


def test_another_pod_of_a_source_waits_for_the_coordinator(cluster: Cluster) -> None:
    cluster.live()
    cluster.change(lambda spec: spec["hosts"][0].update(nodeSelector={"room": "yard"}))
    assert steps(cluster.live()) == [
        "delete Pod local",
        "create Pod edge-b",
        "create Pod local",
        "delete Pod edge-a",
    ]
    assert cluster.pods()["edge-b"]["spec"]["nodeSelector"] == {"room": "yard"}
    assert cluster.addresses() == {"edge": "edge-b", "server": "server-a", "spare": "spare-a"}
    assert cluster.says("Ready").startswith("True Running")


def test_a_host_that_is_used_no_longer_goes(cluster: Cluster) -> None:
    cluster.live()
    cluster.change(lambda spec: spec["stages"][0].pop("host"))
    assert steps(cluster.live()) == ["delete Pod local", "create Pod local", "delete Pod edge-a"]
    assert not [name for kind, name in cluster.objects if kind == "Secret" and "-edge-" in name]


def test_an_evicted_host_is_replaced_and_the_coordinator_goes_on(cluster: Cluster) -> None:
    cluster.live()
    cluster.set_pod("edge-a", phase="Failed", reason="Evicted")
    assert steps(cluster.live()) == ["delete Pod edge-a", "create Pod edge-a"]


def test_an_evicted_coordinator_is_replaced(cluster: Cluster) -> None:
    cluster.live()
    cluster.set_pod("local", phase="Failed", reason="Evicted")
    assert steps(cluster.live()) == ["delete Pod local", "create Pod local"]


def test_a_run_that_is_done_keeps_its_record_and_ends_its_hosts(cluster: Cluster) -> None:
    cluster.live()
    cluster.set_pod("local", phase="Succeeded")
    assert steps(cluster.live()) == ["delete Pod edge-a", "delete Pod server-a"]
    assert cluster.says("Ready") == "False Completed: the sources have ended: the run is done"
    del cluster.objects["Pod", cluster.pods()["local"]["metadata"]["name"]]
    assert steps(cluster.live()) == [], "a record that was cleaned up is no reason to run again"
    cluster.change(set_rate)
    cluster.live()
    assert sorted(cluster.pods()) == ["edge-a", "local", "server-a"]
    assert cluster.says("Ready").startswith("True Running")


def test_a_drain_is_over_once_every_pod_is_gone(cluster: Cluster) -> None:
    cluster.live()
    cluster.change(lambda spec: spec.update(suspend=True))
    cluster.lost = {each["metadata"]["name"] for host, each in cluster.pods().items() if host == "server-a"}
    for _ in range(3):
        cluster.settle()
        cluster.run_pods()
    assert list(cluster.pods()) == ["server-a"]
    assert cluster.says("Progressing").startswith("True Replacing: the pod of server ends")
    cluster.lost = set()
    cluster.live()
    assert cluster.says("Progressing").startswith("False Stable")


def test_a_suspended_pipeline_has_no_pods_and_keeps_its_certificates(cluster: Cluster) -> None:
    cluster.live()
    cluster.change(lambda spec: spec.update(suspend=True))
    writes = steps(cluster.live())
    assert writes == ["delete Pod local", "delete Pod edge-a", "delete Pod server-a"]
    assert cluster.says("Ready").startswith("False Suspended: suspended: no pod runs")
    assert [kind for kind, _ in cluster.objects].count("Secret") == 4
    cluster.change(lambda spec: spec.pop("suspend"))
    cluster.live()
    assert cluster.says("Ready").startswith("True Running")


def test_certificates_are_issued_again_at_two_thirds_and_pods_stay(cluster: Cluster) -> None:
    cluster.live()
    decided = cluster.reconcile()
    assert decided.again_after == pytest.approx(16 * 3600)
    cluster.now += timedelta(hours=16, seconds=1)
    cluster.events.clear()
    writes = cluster.settle()
    assert [each.split("/")[0] for each in writes] == ["change Secret"] * 3
    assert [each.reason for each in cluster.events] == ["CertificatesIssued"]
    assert cluster.settle() == []


def test_a_lost_authority_is_replaced_with_every_certificate(cluster: Cluster) -> None:
    cluster.live()
    (name,) = [name for kind, name in cluster.objects if kind == "Secret" and "authority" in name]
    del cluster.objects["Secret", name]
    assert [each.split("/")[0] for each in cluster.settle()] == ["create Secret", *["change Secret"] * 3]


def test_an_unsound_change_leaves_what_runs(cluster: Cluster) -> None:
    cluster.live()
    before = dict(cluster.objects)
    cluster.change(lambda spec: spec["edges"].append({"from": "log", "to": "camera"}))
    assert cluster.live() == ["status"]
    assert cluster.objects == before
    assert cluster.says("Accepted").startswith("False Invalid: source camera has an input: remove the edge")
    assert (
        cluster.says("Ready")
        == "False Invalid: the spec is not accepted; 3 pods of the last accepted spec stay"
    )
    assert cluster.condition("Accepted")["observedGeneration"] == 2


@pytest.mark.parametrize("point", range(5))
def test_deletion_at_any_point_leaves_nothing(cluster: Cluster, point: int) -> None:
    """Before anything, with new pods, running, while a change drains, while hosts are replaced."""
    for step in (cluster.reconcile, cluster.live, lambda: cluster.change(set_node), cluster.settle)[:point]:
        step()
    if point == 4:
        cluster.run_pods()
        cluster.settle()
    cluster.resource["metadata"]["deletionTimestamp"] = NOW.isoformat()
    writes = steps(cluster.live())
    assert cluster.objects == {}
    assert cluster.is_gone
    if point == 2:
        assert writes == ["delete Pod local", "delete Pod edge-a", "delete Pod server-a"]


def test_a_coordinator_on_a_lost_node_holds_nothing_up(cluster: Cluster) -> None:
    cluster.live()
    cluster.resource["metadata"]["deletionTimestamp"] = NOW.isoformat()
    cluster.settle()
    decided = cluster.reconcile()
    assert decided.again_after == pytest.approx(90)
    cluster.now += timedelta(seconds=91)
    cluster.settle()
    assert all("deletionTimestamp" in pod["metadata"] for pod in cluster.pods().values())
    assert {kind for kind, _ in cluster.objects} == {"Pod"}


TROUBLES: dict[str, tuple[Json, str]] = {
    "no node": (
        {
            "phase": "Pending",
            "conditions": [
                {"type": "PodScheduled", "status": "False", "message": "0/3 nodes: 3 lack memory"}
            ],
        },
        "server: not scheduled: 0/3 nodes: 3 lack memory",
    ),
    "no image": (
        {"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such"}}}]},
        "server: ImagePullBackOff: no such",
    ),
    "it crashes": (
        {
            "containerStatuses": [
                {
                    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
                    "lastState": {"terminated": {"exitCode": 2, "message": "a\nb\nfairlead: no module x\n"}},
                }
            ]
        },
        "server: ended with 2: a b fairlead: no module x",
    ),
}


@pytest.mark.parametrize("case", TROUBLES)
def test_a_pod_that_is_not_ready_says_why(cluster: Cluster, case: str) -> None:
    status, message = TROUBLES[case]
    cluster.live()
    pod = cluster.pods()["server-a"]
    if case == "no node":
        del pod["spec"]["nodeName"]
    cluster.set_pod("server-a", **status)
    cluster.events.clear()
    cluster.settle()
    assert cluster.says("Ready") == f"False PodsNotReady: 2 of 3 pods are ready; {message}"
    assert [(each.type, each.reason) for each in cluster.events] == [("Warning", "PodsNotReady")]


def test_the_time_of_a_condition_is_that_of_its_status(cluster: Cluster) -> None:
    cluster.live()
    since = cluster.condition("Ready")["lastTransitionTime"]
    cluster.now += timedelta(minutes=5)
    cluster.change(set_rate)
    cluster.settle()
    assert cluster.condition("Accepted")["lastTransitionTime"] == since
    assert cluster.condition("Accepted")["observedGeneration"] == 2
    assert cluster.condition("Ready")["lastTransitionTime"] == "2026-11-18T20:05:00Z"
