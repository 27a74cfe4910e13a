"""The explanation of a Pipeline: its answer, what was found, what would help, the most important first."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fairlead.whatif.pipeline.observed import ObservedNode, PipelineEvent
from fairlead.whatif.pipeline.report import explain_pipeline
from tests.pipelineobjects.worlds import Cluster, pipeline
from tests.whatif.pipeline.worlds import by_host, edge, observe, run_status, running, stage

REPORT = {
    "pipeline": str,
    "namespace": str,
    "generation": int,
    "state": str,
    "running": bool,
    "sentence": str,
    "findings": [{"severity": str, "about": str, "name": str, "text": str}],
    "changes": [{"about": str, "name": str, "text": str}],
    "stages": [
        {
            "name": str,
            "host": str,
            "why": str,
            "pods": [str],
            "nodes": [str],
            "rate": float,
            "busy": float,
            "waiting": float,
            "blocked": float,
            "failed": int,
            "restarts": int,
        }
    ],
    "pods": [
        {
            "name": str,
            "host": str,
            "node": str,
            "phase": str,
            "ready": bool,
            "message": str,
            "explanation": type(None),
        }
    ],
    "run": {
        "seconds": float,
        "open": bool,
        "rate": float,
        "source_rate": float,
        "drop_rate": float,
        "age": float,
        "bottleneck": str,
        "edges": [
            {
                "from": str,
                "to": str,
                "policy": str,
                "size": int,
                "depth": int,
                "age": float,
                "rate": float,
                "drop_rate": float,
                "dropped": dict,
            }
        ],
        "moves": [],
        "scaling": [],
    },
    "run_note": str,
    "conditions": [{"type": str, "status": str, "reason": str, "message": str}],
    "events": [{"time": str, "type": str, "reason": str, "message": str, "count": int}],
}
"""The contract of -o json: the fields, in their order, and their types."""
EVENT = PipelineEvent("2026-11-19T01:00:00Z", "Normal", "Placed", "local: log")


def shape(value: Any) -> Any:
    """Return the fields of a document and their types; a list by its first entry."""
    if isinstance(value, dict) and all(isinstance(each, int) for each in value.values()):
        return dict
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value[:1]]
    return type(value)


def slow() -> dict[str, Any]:
    """Return the status of a run that its stage blur limits."""
    stages = [
        stage("camera", "source", "edge"),
        stage("blur", host="server", busy=0.97, waiting=0.0, rate=20.0, workers=["blur/0", "blur/1"]),
        stage("log", "sink", rate=20.0),
    ]
    dropping = edge("camera", "blur", policy="drop_oldest", size=4, depth=4, age=2.125, rate=20.0)
    dropping |= {"drop_rate": 10.0, "dropped": {"oldest": 300}}
    return run_status(bottleneck="blur", stages=stages, edges=[dropping, edge("blur", "log", rate=20.0)])


def test_the_fields_are_a_contract() -> None:
    report = explain_pipeline(observe(running(), slow(), events=(EVENT,)))
    assert shape(json.loads(json.dumps(report))) == REPORT
    assert [*shape(report)] == [*REPORT]


def test_a_slow_stage_is_named_with_what_it_costs_and_what_would_help() -> None:
    report = explain_pipeline(observe(running(), slow()))
    assert (report["state"], report["running"]) == ("running", True)
    assert report["sentence"] == ("shop/count runs: 20.0 frames/s, 10.0 frames/s dropped, limited by blur")
    assert [each["text"] for each in report["findings"]] == [
        "frames are 2.12s old when blur takes them (camera->blur, 4 of 4 held)",
        "camera->blur drops 10.0 frames/s now; since the start: 300 oldest",
        "blur limits the run: busy for 97% of the time, 40.0 ms a call",
    ]
    # 20 frames/s keep 2 replicas busy for 97 %: 30 need 2 x 0.97 x 30 / 20 = 2.91.
    assert [each["text"] for each in report["changes"]] == [
        "give blur 3 replicas instead of 2, where its node has free cores; or put blur on a faster host "
        "(spare of the spec has no stage)"
    ]


@pytest.mark.parametrize(
    ("held_by", "most", "finding", "change"),
    [
        ("", 4, "", "put blur on a faster host (spare of the spec has no stage)"),
        (
            "max is 2",
            2,
            "blur should have more replicas than 2: max is 2",
            "raise replicas of blur to max: 3, where its node has free cores; or put blur on a faster host "
            "(spare of the spec has no stage)",
        ),
        (
            "its hosts have cores for 2",
            4,
            "blur should have more replicas than 2: its hosts have cores for 2",
            "give the pod of blur more cores: its hosts have cores for 2; or put blur on a faster host "
            "(spare of the spec has no stage)",
        ),
    ],
)
def test_replicas_that_follow_the_load_are_explained(
    held_by: str, most: int, finding: str, change: str
) -> None:
    last = {"from": 1, "to": 2, "reason": "frames were 1.2s old for 30s"}
    scaled = {"stage": "blur", "replicas": 2, "min": 1, "max": most, "changes": 1, "last": last}
    report = explain_pipeline(observe(running(), {**slow(), "scaling": [{**scaled, "held_by": held_by}]}))
    texts = [each["text"] for each in report["findings"] if "replicas" in each["text"]]
    why = "changed from 1 to 2: frames were 1.2s old for 30s"
    assert [text for text in texts if "should" not in text] == [f"blur has 2 replicas of 1 to {most}, {why}"]
    assert [text for text in texts if "should" in text] == ([finding] if finding else [])
    assert [each["text"] for each in report["changes"]] == [change]
    assert report["run"]["scaling"][0]["held_by"] == held_by


def test_a_canary_is_explained() -> None:
    versions = [
        {"version": name, "percent": percent, "in": 9 * percent, "failed": 1}
        for name, percent in (("stable", 90), ("canary", 10))
    ]
    run = run_status(
        stages=[stage("camera", "source"), stage("blur", versions=versions), stage("log", "sink")]
    )
    text = "a new version of blur is tried with 10 % of its frames: 90 frames taken, 1 failed"
    assert text in [each["text"] for each in explain_pipeline(observe(running(), run))["findings"]]


def test_a_moved_stage_is_named_with_its_hosts_or_its_replicas() -> None:
    hosts = {"name": "blur", "from": "server", "to": "edge"}
    for stages, text in (
        ([hosts], "moved blur from server to edge at frame 7: x"),
        ([{**hosts, "replicas": [1, 2]}], "moved blur from 1 to 2 replicas at frame 7: x"),
    ):
        report = explain_pipeline(
            observe(running(), run_status(moves=[{"stages": stages, "sequence": 7, "reason": "x"}]))
        )
        assert text in [each["text"] for each in report["findings"]]


def test_each_stage_has_its_place_and_the_reason() -> None:
    report = explain_pipeline(observe(running(), run_status()))
    assert [(each["name"], each["host"], each["nodes"]) for each in report["stages"]] == [
        ("camera", "edge", ["n1"]),
        ("blur", "server", ["n1"]),
        ("log", "local", ["n1"]),
    ]
    assert [each["why"] for each in report["stages"]] == [
        "the spec states host edge; node n1 has room=lab, class jetson-orin-nano",
        "the spec states host server; node n1 has 2Gi of an accelerator",
        "the spec states no host, so that it is in the coordinator's pod",
    ]
    assert report["findings"][0]["text"] == "no stage limits the run: every stage waits for frames"
    assert report["changes"] == []


def test_a_slow_link_is_told_from_a_slow_stage() -> None:
    stages = [
        stage("camera", "source", "edge", blocked=0.9),
        stage("blur", host="server", waiting=0.9),
        stage("log", "sink"),
    ]
    report = explain_pipeline(observe(running(), run_status(stages=stages)))
    assert report["findings"][0]["text"] == (
        "the link of camera->blur limits the run: camera waits to send, blur for frames"
    )
    assert report["changes"][0]["text"] == (
        "camera->blur: put camera and blur on one host, or state encode: jpeg on the edge "
        "where it carries images"
    )
    near = [{**each, "hosts": ["server"]} for each in stages]
    report = explain_pipeline(observe(running(), run_status(stages=near)))
    assert (report["findings"][0]["about"], report["changes"]) == ("run", [])


def test_expired_frames_are_answered_with_the_age_that_they_need() -> None:
    edges = [edge("camera", "blur", age=0.5, drop_rate=4.0, dropped={"expired": 40}), edge("blur", "log")]
    (change,) = explain_pipeline(observe(running(), run_status(edges=edges)))["changes"]
    assert change["text"].startswith(
        "camera->blur: raise max_age (now 200ms) above the 500ms that frames need"
    )


def test_frames_that_the_file_drops_anyway_are_no_warning() -> None:
    sampled = edge("camera", "blur", policy="sample(3)", drop_rate=20.0, dropped={"sampled": 900})
    report = explain_pipeline(observe(running(), run_status(edges=[sampled, edge("blur", "log")])))
    assert {each["severity"] for each in report["findings"]} == {"info"}
    assert report["run"]["drop_rate"] == 0


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"open": False}, "not every stage is open yet: no frame flows"),
        ({"hosts": {"edge": {"connected": False}}}, "the coordinator has no connection to edge"),
        ({"follow": {"failed": "server: no answer"}}, "a change of the file was given up: server: no answer"),
        (
            {"stages": [stage("camera", "source"), stage("blur", failed=2), stage("log", "sink")]},
            "blur has failed with 2 frames, which were skipped",
        ),
        (
            {"stages": [stage("camera", "source"), stage("blur"), stage("log", "sink", rate=0.0)]},
            "sources make 25.0 frames/s, and no sink takes one",
        ),
    ],
)
def test_what_is_wrong_with_a_run_comes_first(more: dict[str, Any], text: str) -> None:
    first = explain_pipeline(observe(running(), run_status(**more)))["findings"][0]
    assert (first["text"], first["severity"] == "info") == (text, False)


def test_without_the_page_of_the_run_the_rest_is_explained() -> None:
    report = explain_pipeline(observe(running()))
    assert report["sentence"] == "shop/count runs: 3 of 3 pods are ready"
    assert (report["run"], report["run_note"]) == (None, "nothing answered")
    assert report["stages"][0]["rate"] is None


def _refuse(cluster: Cluster) -> None:
    cluster.change(lambda spec: spec["stages"][0].update(source="number"))


def _suspend(cluster: Cluster) -> None:
    cluster.change(lambda spec: spec.update(suspend=True))


@pytest.mark.parametrize(
    ("damage", "state", "text", "change"),
    [
        (_refuse, "refused", "the spec is not accepted: ", "change the spec as the condition Accepted says"),
        (_suspend, "suspended", "it is suspended: no pod runs", "let it run: fairlead pipeline deploy FILE"),
    ],
)
def test_a_pipeline_that_does_not_run_is_answered_with_what_to_do(
    damage: Callable[[Cluster], None], state: str, text: str, change: str
) -> None:
    cluster = running()
    damage(cluster)
    report = explain_pipeline(observe(cluster))
    assert (report["state"], report["running"]) == ("unobserved", False)
    assert report["changes"][0]["text"].startswith("start an operator")
    cluster.live()
    report = explain_pipeline(observe(cluster))
    assert (report["state"], report["running"]) == (state, False)
    assert report["findings"][0]["text"].startswith(text)
    assert report["changes"][0]["text"].startswith(change)


def test_a_pod_without_a_node_is_explained_by_its_scheduler() -> None:
    cluster = Cluster(pipeline())
    cluster.settle()
    observed = observe(cluster)
    reason = {"sentence": "0 of 2 nodes can take it", "changes": [{"text": "ask for 1.0 GiB"}]}
    pods = [replace(pod, explanation=reason if pod.host == "server" else {}) for pod in observed.pods]
    report = explain_pipeline(replace(observed, pods=pods))
    name = next(pod.status.pod for pod in pods if pod.host == "server")
    assert report["state"] == "waiting"
    texts = [each["text"] for each in report["findings"]]
    assert f"pod {name} of server is not ready: 0 of 2 nodes can take it" in texts
    assert [each["text"] for each in report["changes"]] == [f"for {name}: ask for 1.0 GiB"]


@pytest.mark.parametrize(
    ("state", "change"),
    [
        (
            {"lastState": {"terminated": {"exitCode": 2, "message": "no module named code"}}},
            "read its log: kubectl logs -n shop ",
        ),
        (
            {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}},
            "correct the image of edge, or spec.imagePullSecrets: image:1",
        ),
    ],
)
def test_a_pod_that_does_not_start_is_answered_with_what_to_do(state: dict[str, Any], change: str) -> None:
    cluster = running()
    by_host(cluster)["edge"]["status"] = {"phase": "Running", "containerStatuses": [state]}
    cluster.settle()
    report = explain_pipeline(observe(cluster))
    assert (report["state"], report["running"]) == ("waiting", False)
    assert report["changes"][0]["text"].startswith(change)


def test_a_lost_node_is_named_with_the_hosts_on_it() -> None:
    observed = observe(running(), run_status())
    lost = {"n1": ObservedNode("n1", is_ready=False, since="2026-11-19T01:00:00Z")}
    report = explain_pipeline(replace(observed, nodes=lost))
    assert report["findings"][0]["text"] == (
        "node n1, with edge, server, local, is not ready since 2026-11-19T01:00:00Z"
    )
    assert report["changes"][0]["text"] == "bring node n1 back, or let edge, server, local fit another"


def test_a_run_that_is_done_is_not_missed() -> None:
    cluster = running()
    cluster.set_pod("local", phase="Succeeded")
    cluster.live()
    report = explain_pipeline(observe(cluster))
    assert (report["state"], report["running"]) == ("completed", True)
    assert [each["severity"] for each in report["findings"]] == []
