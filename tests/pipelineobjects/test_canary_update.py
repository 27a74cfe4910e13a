"""Updates with a canary: a share of the frames first, compared, then all of them, or back."""

import json
from typing import Any

import pytest

from fairlead.pipelineobjects.update.version_verdict import (
    compare_versions,
    describe_versions,
    find_crashes,
    warm_counts,
)
from tests.pipelineobjects.test_controller import steps
from tests.pipelineobjects.test_updates import MOVED, events, set_image
from tests.pipelineobjects.worlds import SPEC, Cluster, pipeline

CANARY = SPEC + "update: {canary: {percent: 10, duration: 20s}}\n"
BEGUN = "Canary: 10 % of the frames of blur go to the new version for 20s"


def begun(spec: str = CANARY) -> Cluster:
    """Return a cluster in which an update is made, up to where its canary runs."""
    cluster = Cluster(pipeline(spec))
    cluster.live()
    cluster.events.clear()
    cluster.change(set_image)
    cluster.pass_time(14)
    return cluster


def stage(cluster: Cluster) -> dict[str, Any]:
    """Return the stage of the file of the run."""
    body: dict[str, Any] = json.loads(cluster.file()["data"]["pipeline.yaml"])["stages"][1]
    return body


def test_a_canary_that_is_no_worse_is_followed_by_all_frames() -> None:
    cluster = begun()
    assert stage(cluster)["canary"] == {"host": "server.canary", "percent": 10}
    assert cluster.addresses() == {
        "edge": "edge-a",
        "server": "server-a",
        "server.canary": "server-b",
        "spare": "spare-a",
    }
    assert cluster.says("Progressing") == "True Updating: a canary runs for 20s"
    assert cluster.says("Ready").startswith("True Running")
    assert events(cluster) == [BEGUN]
    cluster.live()
    assert "canary" not in stage(cluster)
    assert cluster.addresses() == {"edge": "edge-a", "server": "server-b", "spare": "spare-a"}
    said = events(cluster)
    assert said[1].startswith(
        "CanaryPassed: the new version is no worse: blur: 20 ms a frame in the new version"
    )
    assert said[2:] == [
        f"Moving: {MOVED}",
        f"Moved: {MOVED}",
        "Updated: the run is no worse: 25.0 frames/s after the update, 25.0 before",
    ]
    assert sorted(cluster.pods()) == ["edge-a", "local", "server-b"]
    assert cluster.settle() == []


@pytest.mark.parametrize(
    ("counts", "reason", "is_quick"),
    [
        ({"process_s": 0.2}, "blur takes 40 ms a frame in the new version, 20 ms in the old one", False),
        ({"in": 2}, "the new version of blur took ", False),
        ({"failed": 2}, "the new version of blur failed with 6 frames", True),
        ({"restarts": 1}, "2 crashes of the new version of blur", True),
    ],
)
def test_a_canary_that_is_worse_is_refused(counts: dict[str, float], reason: str, is_quick: bool) -> None:
    cluster = Cluster(pipeline(CANARY))
    cluster.live()
    cluster.run.canary |= counts
    cluster.change(set_image)
    cluster.pass_time(20)
    is_back = "canary" not in stage(cluster)
    assert is_back == is_quick
    cluster.live()
    assert cluster.addresses() == {"edge": "edge-a", "server": "server-a", "spare": "spare-a"}
    assert sorted(cluster.pods()) == ["edge-a", "local", "server-a"]
    said = cluster.says("Progressing")
    assert said.startswith(f"False RolledBack: rolled back: {reason}")
    assert not [each for each in events(cluster) if each.startswith("Moving")], "no stage has moved"
    assert cluster.settle() == []
    cluster.run.canary |= {"in": 5, "process_s": 0.1, "failed": 0, "restarts": 0}
    cluster.change(lambda spec: spec.update(image="image:3"))
    cluster.live()
    assert cluster.pods()["server-b"]["spec"]["containers"][0]["image"] == "image:3"


def test_another_spec_ends_the_canary_before_its_pod_is_replaced() -> None:
    cluster = begun()
    cluster.run.follows = False
    cluster.change(lambda spec: spec.update(image="image:3"))
    cluster.pass_time(5)
    assert "canary" not in stage(cluster)
    assert "deletionTimestamp" not in cluster.pods()["server-b"]["metadata"], "the run is still on it"
    cluster.run.follows = True
    cluster.live()
    assert cluster.addresses()["server"] == "server-b"
    assert cluster.pods()["server-b"]["spec"]["containers"][0]["image"] == "image:3"
    assert events(cluster).count(BEGUN) == 1
    assert [each.message for each in cluster.events if each.reason == "Canary"] == [
        BEGUN.partition(": ")[2]
    ] * 2


def test_the_old_spec_again_ends_the_canary_and_its_pod() -> None:
    cluster = begun()
    cluster.change(lambda spec: spec.pop("image"))
    cluster.live()
    assert sorted(cluster.pods()) == ["edge-a", "local", "server-a"]
    assert cluster.says("Progressing") == "False Stable: nothing is to be done"


@pytest.mark.parametrize(
    ("lost", "image", "text"),
    [
        ("server-b", "image:1", "False RolledBack: rolled back: the new pod of server is not ready any more"),
        ("server-a", "image:2", "False Stable"),
    ],
)
def test_a_pod_that_is_lost_ends_the_canary(lost: str, image: str, text: str) -> None:
    """Without the new version's the old one stays; without the old one's all frames go to the new one."""
    cluster = begun()
    cluster.set_pod(lost, podIP="10.0.0.1", conditions=[{"type": "Ready", "status": "False"}])
    cluster.held.add(lost)
    cluster.pass_time(3)
    assert "canary" not in stage(cluster)
    cluster.held.clear()
    cluster.live()
    (left,) = {name for name in cluster.pods() if name.startswith("server")}
    assert cluster.pods()[left]["spec"]["containers"][0]["image"] == image
    assert cluster.says("Progressing").startswith(text)


def test_a_run_that_cannot_begin_it_or_says_nothing_goes_back() -> None:
    cluster = Cluster(pipeline(CANARY))
    cluster.live()
    cluster.change(set_image)
    cluster.pass_time(11)
    cluster.run.follows, cluster.run.failed = False, "server-b does not answer"
    cluster.pass_time(130)
    why = "the canary was not begun: server-b does not answer"
    assert f"RolledBack: rolled back: {why}" in events(cluster)
    assert "canary" not in stage(cluster)
    cluster.run.follows = True
    cluster.live()
    assert cluster.addresses()["server"] == "server-a"

    cluster = begun()
    cluster.run.is_reached = False
    cluster.pass_time(200)
    assert "canary" not in stage(cluster)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "host: server, replicas: 2",
            "host: server",
            "blur is one process; with replicas: {min: 1, max: 2} it could have one",
        ),
        ("image:2", "timeout", "the spec of stage blur changed, and all its processes have one"),
    ],
)
def test_an_update_that_can_have_none_says_so_and_goes_on(old: str, new: str, reason: str) -> None:
    cluster = Cluster(pipeline(CANARY.replace(old, new)))
    cluster.live()
    cluster.events.clear()
    cluster.change(set_image)
    if new == "timeout":
        cluster.resource["spec"]["stages"][1]["timeout"] = "5s"
    cluster.live()
    assert f"NoCanary: the update has no canary: {reason}" in events(cluster)
    assert cluster.addresses()["server"] == "server-b"


def test_a_pod_that_is_lost_without_an_update_has_no_canary() -> None:
    cluster = Cluster(pipeline(CANARY))
    cluster.live()
    cluster.objects = {key: each for key, each in cluster.objects.items() if "server-a" not in key[1]}
    assert "create Pod server-a" in steps(cluster.live())
    assert not [each for each in events(cluster) if "anary" in each]


def counted(**canary: float) -> list[dict[str, Any]]:
    """Return a stage of which both versions have counted."""
    stable = {"version": "stable", "percent": 80, "in": 400, "failed": 4, "restarts": 1, "process_s": 4.0}
    usual = {"version": "canary", "percent": 20, "in": 100, "failed": 1, "restarts": 1, "process_s": 1.0}
    return [{"name": "s", "versions": [stable, usual | canary]}]


@pytest.mark.parametrize(
    ("counts", "worse"),
    [
        ({}, False),
        ({"in": 80, "process_s": 0.8}, False),
        ({"in": 74, "process_s": 0.7}, True),
        ({"process_s": 1.34}, False),
        ({"process_s": 1.36}, True),
        ({"in": 76, "failed": 6}, False),
        ({"failed": 8}, True),
        ({"restarts": 2}, False),
        ({"restarts": 3}, True),
    ],
)
def test_two_versions_are_compared(counts: dict[str, float], worse: bool) -> None:
    assert bool(compare_versions(counted(**counts), {})) == worse
    if "in" not in counts and "process_s" not in counts:
        assert bool(find_crashes(counted(**counts))) == worse


def test_of_a_run_that_counts_nothing_nothing_is_worse() -> None:
    assert compare_versions([{"name": "s"}], {}) == ""
    assert warm_counts([{"name": "s"}]) is None


def test_the_first_calls_of_a_version_do_not_count() -> None:
    """Half a second for the first one, where both versions take 10 ms then."""
    early = counted(**{"in": 6, "process_s": 0.56})
    warm = warm_counts(early)
    assert warm is not None
    assert warm_counts(counted(**{"in": 5})) is None
    late = counted(**{"in": 80, "process_s": 1.3})
    assert "takes 16.2 ms a frame" in compare_versions(late, {})
    early[0]["versions"][0] |= {"in": 30, "process_s": 0.3}
    warm = warm_counts(early)
    assert warm is not None
    assert compare_versions(late, warm) == ""
    assert describe_versions(late, warm).startswith(
        "s: 10 ms a frame in the new version, 10 ms in the old one"
    )
    again = counted(**{"in": 4, "process_s": 0.04})  # the process was started again since
    assert "took 4 of 100 frames" in compare_versions(again, warm)
