"""Updates of a run that goes on: beside the old pod, carried out, observed, and back if it is worse."""

from datetime import timedelta

import pytest

from tests.pipelineobjects.test_controller import steps
from tests.pipelineobjects.worlds import Cluster, Json, pipeline


@pytest.fixture
def cluster() -> Cluster:
    """Return a cluster in which a Pipeline runs."""
    cluster = Cluster(pipeline())
    cluster.live()
    cluster.events.clear()
    return cluster


def set_image(spec: Json) -> None:
    spec["image"] = "image:2"


def events(cluster: Cluster) -> list[str]:
    """Return what the operator said of updates, each once."""
    said = [f"{each.reason}: {each.message}" for each in cluster.events if each.reason != "PodEnded"]
    return list(dict.fromkeys(said))


MOVED = "blur moves from n-server-a to n-server-b: image changed"


def test_a_new_image_is_carried_out_live_and_the_old_pod_ends_after_the_observation(cluster: Cluster) -> None:
    """The source and the coordinator have no code of the user's: they stay."""
    cluster.change(set_image)
    cluster.settle()
    assert sorted(cluster.pods()) == ["edge-a", "local", "server-a", "server-b"]
    assert cluster.addresses()["server"] == "server-a"
    assert cluster.says("Ready").startswith("True Running")
    assert cluster.says("Progressing") == "True Updating: the run goes on while the new pod of server starts"
    cluster.pass_time(9)
    assert cluster.addresses()["server"] == "server-a", "the run is measured for ten seconds first"
    cluster.pass_time(3)
    assert cluster.addresses() == {"edge": "edge-a", "server": "server-b", "spare": "spare-a"}
    assert cluster.says("Progressing") == f"True Updating: {MOVED}; the run is observed for 30s"
    assert sorted(cluster.pods()) == ["edge-a", "local", "server-a", "server-b"], "the way back is kept"
    cluster.pass_time(25)
    assert "server-a" in cluster.pods()
    writes = cluster.live()
    assert steps(writes) == ["delete Pod server-a"]
    assert events(cluster) == [
        f"Moving: {MOVED}",
        f"Moved: {MOVED}",
        "Updated: the run is no worse: 25.0 frames/s after the update, 25.0 before",
    ]
    assert cluster.says("Progressing") == "False Stable: nothing is to be done"
    assert cluster.pods()["server-b"]["spec"]["containers"][0]["image"] == "image:2"
    assert cluster.pods()["local"]["spec"]["containers"][0]["image"] == "image:1"
    assert cluster.settle() == []


def test_the_coordinators_pod_says_which_file_it_has(cluster: Cluster) -> None:
    """A changed annotation lets the kubelet refresh the volume at once."""
    key = "fairlead.dev/pipeline-file"
    before = cluster.pods()["local"]["metadata"]["annotations"][key]
    cluster.change(set_image)
    cluster.live()
    after = cluster.pods()["local"]["metadata"]["annotations"][key]
    assert (before != after, after) == (True, cluster.run.digest)


def test_two_updates_use_the_slots_in_turn(cluster: Cluster) -> None:
    cluster.change(set_image)
    cluster.live()
    cluster.change(lambda spec: spec.update(image="image:3"))
    assert steps(cluster.live()) == ["create Pod server-a", "delete Pod server-b"]
    assert cluster.addresses()["server"] == "server-a"


def test_no_page_is_asked_for_while_nothing_happens(cluster: Cluster) -> None:
    cluster.settle()
    assert cluster.asked == {}
    cluster.change(set_image)
    cluster.settle()
    assert list(cluster.asked.values()) == [1.0]


WORSE: dict[str, tuple[Json, str]] = {
    "a lower rate": ({"share": 0.5}, "12.5 frames/s after the update, 25.0 before"),
    "drops": ({"drops": 10}, "300 frames dropped in 30s after the update, 0 in 10s before"),
    "failures": ({"failures": 4}, "8 frames failed since the update"),
}


@pytest.mark.parametrize("case", WORSE)
def test_an_update_that_makes_the_run_worse_is_rolled_back(cluster: Cluster, case: str) -> None:
    changes, worse = WORSE[case]
    cluster.change(set_image)
    cluster.pass_time(12)
    assert cluster.addresses()["server"] == "server-b"
    for name, value in changes.items():
        setattr(cluster.run, name, value)
    writes = cluster.live()
    assert steps(writes) == ["delete Pod server-b"]
    assert cluster.addresses()["server"] == "server-a"
    assert (
        cluster.says("Progressing")
        == f"False RolledBack: rolled back: {worse}; the new spec is tried again once it changes"
    )
    assert f"RolledBack: rolled back: {worse}" in events(cluster)
    assert cluster.says("Ready").startswith("True Running")
    cluster.now += timedelta(hours=1)
    assert cluster.settle() == [], "the same spec is not tried again"
    cluster.set_pod("server-a", phase="Failed", reason="Evicted")
    cluster.live()
    assert cluster.addresses()["server"] == "server-b"
    assert cluster.pods()["server-b"]["spec"]["containers"][0]["image"] == "image:1", "the last spec counts"
    cluster.run.share, cluster.run.drops, cluster.run.failures = 1.0, 0, 0
    cluster.change(lambda spec: spec.update(image="image:3"))
    cluster.live()
    assert cluster.pods()["server-a"]["spec"]["containers"][0]["image"] == "image:3"
    assert cluster.says("Progressing").startswith("False Stable")


def test_a_source_that_becomes_slower_by_itself_is_no_reason(cluster: Cluster) -> None:
    cluster.change(set_image)
    cluster.pass_time(12)
    cluster.run.rate = 10
    cluster.live()
    assert cluster.addresses()["server"] == "server-b"
    assert "server-a" not in cluster.pods()


def test_a_run_that_ends_during_the_observation_goes_back(cluster: Cluster) -> None:
    cluster.change(set_image)
    cluster.pass_time(14)
    cluster.run.seconds = 0.0
    cluster.pass_time(2)
    assert cluster.addresses()["server"] == "server-a"
    assert "RolledBack: rolled back: the run ended since the update, and began again" in events(cluster)


def test_without_rollback_the_old_pod_ends_once_the_run_has_left_it(cluster: Cluster) -> None:
    cluster.change(lambda spec: spec.update(image="image:2", update={"rollback": False}))
    cluster.settle()
    cluster.run_pods()
    cluster.run.follows = False
    cluster.pass_time(5)
    assert cluster.addresses()["server"] == "server-b"
    assert "server-a" in cluster.pods(), "stages are still there"
    cluster.run.follows = True
    cluster.pass_time(3)
    assert "server-a" not in cluster.pods()


def test_a_new_pod_that_never_starts_leaves_the_run_alone(cluster: Cluster) -> None:
    cluster.held.add("server-b")
    cluster.change(lambda spec: spec["hosts"][1].update(nodeSelector={"room": "nowhere"}))
    cluster.pass_time(100)
    assert cluster.addresses()["server"] == "server-a"
    assert cluster.says("Ready").startswith("True Running")
    assert cluster.says("Progressing").startswith("True Updating")
    cluster.change(lambda spec: spec["hosts"][1].pop("nodeSelector"))
    cluster.held.clear()
    assert steps(cluster.live()) == ["delete Pod server-b"], "the spec of before: nothing moves"


def test_a_new_pod_that_needs_the_place_of_the_old_one_gets_it_after_a_minute(cluster: Cluster) -> None:
    cluster.held.add("server-b")
    cluster.change(set_image)
    cluster.pass_time(55)
    assert sorted(cluster.pods()) == ["edge-a", "local", "server-a", "server-b"]
    cluster.events.clear()
    cluster.held.clear()
    cluster.held.add("server-b")
    cluster.pass_time(10)
    why = "the new pod of server finds no node beside the old one"
    assert f"Draining: the run is drained and started again: {why}" in events(cluster)
    cluster.held.clear()
    cluster.live()
    assert sorted(cluster.pods()) == ["edge-a", "local", "server-b"]
    assert cluster.says("Ready").startswith("True Running")


@pytest.mark.parametrize("is_rolled_back", [True, False])
def test_a_run_whose_page_is_away_is_drained_and_started_again(
    cluster: Cluster, is_rolled_back: bool
) -> None:
    cluster.run.is_reached = False
    cluster.change(lambda spec: spec.update(image="image:2", update={"rollback": is_rolled_back}))
    cluster.pass_time(25)
    assert cluster.addresses()["server"] == "server-a"
    cluster.pass_time(10)
    assert "Draining: the run is drained and started again: its page cannot be read" in events(cluster)
    cluster.live()
    assert sorted(cluster.pods()) == ["edge-a", "local", "server-b"]
    assert cluster.says("Progressing").startswith("False Stable")


def test_an_observation_without_a_page_ends_a_minute_late_and_says_so(cluster: Cluster) -> None:
    cluster.change(set_image)
    cluster.pass_time(14)
    cluster.run.is_reached = False
    cluster.pass_time(85)
    assert "server-a" in cluster.pods()
    cluster.live()
    assert sorted(cluster.pods()) == ["edge-a", "local", "server-b"]
    assert "Updated: the page of the run is away: it was not compared" in events(cluster)


def test_a_run_that_does_not_start_is_not_waited_for(cluster: Cluster) -> None:
    """What it lacks may be what the change brings; nothing can be lost."""
    cluster.held.add("local")
    cluster.set_pod("local", podIP="10.0.0.1", conditions=[{"type": "Ready", "status": "False"}])
    cluster.change(set_image)
    cluster.settle()
    assert "Draining: the run is drained and started again: no frames flow that it could keep" in events(
        cluster
    )
    cluster.held.clear()
    cluster.live()
    assert sorted(cluster.pods()) == ["edge-a", "local", "server-b"]


def test_a_new_pod_that_requests_more_does_not_drain_the_run(cluster: Cluster) -> None:
    cluster.held.add("server-b")
    cluster.change(lambda spec: spec["hosts"][1]["resources"]["requests"].update(cpu="2500m"))
    cluster.pass_time(120)
    assert sorted(cluster.pods()) == ["edge-a", "local", "server-a", "server-b"]


def test_what_the_run_says_it_cannot_carry_out_is_done_by_a_new_start(cluster: Cluster) -> None:
    cluster.change(set_image)
    cluster.pass_time(10)
    cluster.run.follows, cluster.run.pending = False, "edges joined"
    cluster.pass_time(4)
    assert "Draining: the run is drained and started again: edges joined" in events(cluster)
    cluster.run.follows, cluster.run.pending = True, ""
    cluster.live()
    assert sorted(cluster.pods()) == ["edge-a", "local", "server-b"]


def test_a_move_that_is_given_up_for_two_minutes_is_rolled_back(cluster: Cluster) -> None:
    cluster.change(set_image)
    cluster.pass_time(10)
    cluster.run.follows, cluster.run.failed = False, "server does not open blur"
    cluster.pass_time(30)
    assert cluster.says("Progressing") == f"True Updating: {MOVED}; tried again: server does not open blur"
    cluster.pass_time(100)
    assert cluster.addresses()["server"] == "server-a"
    cluster.run.follows, cluster.run.failed = True, ""
    cluster.live()
    assert sorted(cluster.pods()) == ["edge-a", "local", "server-a"]
    assert "server does not open blur" in cluster.says("Progressing")


def evict(cluster: Cluster, host: str, grace: int = 15) -> None:
    """Let the pod of a lost node be deleted, which its kubelet never confirms."""
    pod = cluster.pods()[host]
    pod["metadata"]["deletionTimestamp"] = (cluster.now + timedelta(seconds=grace)).isoformat()
    pod["status"]["conditions"][0]["status"] = "False"
    cluster.lost.add(pod["metadata"]["name"])


def test_a_lost_stage_is_replaced_at_once_and_its_old_address_is_left(cluster: Cluster) -> None:
    evict(cluster, "server-a")
    cluster.pass_time(4)
    assert cluster.addresses()["server"] == "server-b"
    moved = "blur moves from n-server-a to n-server-b: its pod is deleted"
    assert events(cluster)[-1] == f"Moved: {moved}"
    cluster.live(600)
    assert sorted(cluster.pods()) == ["edge-a", "local", "server-a", "server-b"]
    assert cluster.says("Ready").startswith("True Running")
    cluster.now += timedelta(minutes=6)
    assert steps(cluster.live()) == ["force Pod server-a"]


def test_a_lost_source_is_replaced_by_a_new_start_of_the_run(cluster: Cluster) -> None:
    evict(cluster, "edge-a")
    cluster.settle()
    assert "edge-b" not in cluster.pods(), "it may end by itself: then its successor has its address"
    cluster.now += timedelta(seconds=46)
    writes = steps(cluster.live())
    assert writes == ["delete Pod local", "create Pod edge-b", "create Pod local"]
    assert cluster.addresses()["edge"] == "edge-b"
    assert cluster.says("Ready").startswith("True Running")


def test_a_lost_pod_with_a_volume_is_left_to_the_administrator() -> None:
    resource = pipeline()
    resource["spec"]["hosts"][1]["dataClaim"] = "frames"
    cluster = Cluster(resource)
    cluster.live()
    evict(cluster, "server-a")
    cluster.live(600)
    cluster.now += timedelta(minutes=10)
    assert cluster.live() == []
    assert "server-a" in cluster.pods()


@pytest.mark.parametrize("claim", ["", "progress"])
def test_a_second_coordinator_starts_only_where_a_volume_keeps_the_first_from_writing(claim: str) -> None:
    resource = pipeline()
    resource["spec"] |= {"stateClaim": claim} if claim else {}
    cluster = Cluster(resource)
    cluster.live()
    evict(cluster, "local", grace=60)
    cluster.now += timedelta(seconds=100)
    cluster.live()
    assert cluster.says("Progressing").startswith("True CoordinatorLost: the coordinator's node is lost")
    cluster.now += timedelta(minutes=5)
    assert steps(cluster.live()) == (["force Pod local", "create Pod local"] if claim else [])


def test_a_host_with_a_bad_duration_is_refused() -> None:
    resource = pipeline()
    resource["spec"]["update"] = {"observe": "soon"}
    cluster = Cluster(resource)
    cluster.settle()
    assert cluster.says("Accepted").startswith("False Invalid: update.observe")


@pytest.mark.parametrize("seconds", [0, 1, 5, 12, 20, 45])
def test_deletion_in_the_middle_of_an_update_leaves_nothing(cluster: Cluster, seconds: int) -> None:
    cluster.change(set_image)
    cluster.pass_time(seconds)
    cluster.resource["metadata"]["deletionTimestamp"] = cluster.now.isoformat()
    cluster.live()
    assert cluster.objects == {}
    assert cluster.is_gone


def test_a_pipeline_on_lost_nodes_is_deleted_after_five_minutes(cluster: Cluster) -> None:
    for host in ("edge-a", "server-a", "local"):
        evict(cluster, host)
    cluster.resource["metadata"]["deletionTimestamp"] = cluster.now.isoformat()
    cluster.settle()
    cluster.now += timedelta(minutes=4)
    cluster.settle()
    assert not cluster.is_gone
    cluster.now += timedelta(minutes=2)
    cluster.settle()
    assert cluster.objects == {}
    assert cluster.is_gone
