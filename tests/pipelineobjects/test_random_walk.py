"""Whatever happens in whatever order: in the end the wanted objects are there, and nothing is written."""

import json
from collections.abc import Callable
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipelineobjects.worlds import Cluster, Json, pipeline

CANARY = {"canary": {"percent": 10, "duration": "20s"}}
STEPS = st.one_of(
    st.tuples(st.just("image"), st.sampled_from(["image:1", "image:2", "image:3"])),
    st.tuples(st.just("room"), st.sampled_from(["lab", "rack"])),
    st.tuples(st.just("host"), st.sampled_from(["edge", "server", "spare"])),
    st.tuples(st.just("rate"), st.sampled_from([5, 30])),
    st.tuples(st.just("suspend"), st.booleans()),
    st.tuples(st.just("rollback"), st.booleans()),
    st.tuples(st.just("canary"), st.booleans()),
    st.tuples(st.just("new_version"), st.sampled_from(["good", "slow", "crashes"])),
    st.tuples(st.just("share"), st.sampled_from([0.3, 1.0])),
    st.tuples(st.just("follows"), st.booleans()),
    st.tuples(st.just("is_reached"), st.booleans()),
    st.tuples(st.just("crash"), st.just(True)),
    st.tuples(st.just("evict"), st.integers(0, 4)),
    st.tuples(st.just("lose"), st.integers(0, 4)),
    st.tuples(st.just("hold"), st.sampled_from(["server-a", "server-b", "spare-a", "local"])),
    st.tuples(st.just("time"), st.sampled_from([1, 5, 15, 60, 400])),
    st.tuples(st.just("forget"), st.integers(0, 12)),
    st.tuples(st.just("pass"), st.just(True)),
)


def play(cluster: Cluster, what: str, value: object) -> None:
    """Let one thing happen."""
    spec: Json = cluster.resource["spec"]
    edits: dict[str, Callable[[], object]] = {
        "image": lambda: spec.update(image=value),
        "room": lambda: spec["hosts"][1].update(nodeSelector={"room": value}),
        "host": lambda: spec["stages"][1].update(host=value),
        "rate": lambda: spec["stages"][0]["options"].update(rate=value),
        "suspend": lambda: spec.update(suspend=value),
        "rollback": lambda: spec.update(update={"rollback": value}),
        "canary": lambda: spec.update(update=CANARY if value else {}),
    }
    pods = list(cluster.pods().values())
    if what in edits:
        edits[what]()
        cluster.change(lambda _: None)
    elif what in ("share", "follows", "is_reached"):
        setattr(cluster.run, what, value)
    elif what == "new_version":
        cluster.run.canary |= {"process_s": 0.3 if value == "slow" else 0.1}
        cluster.run.canary |= {"restarts": int(value == "crashes")}
    elif what == "crash":
        cluster.run.seconds = 0.0
    elif what in ("evict", "lose") and pods:
        pod = pods[int(str(value)) % len(pods)]
        if what == "lose":
            cluster.lost.add(pod["metadata"]["name"])
        pod["metadata"].setdefault("deletionTimestamp", (cluster.now + timedelta(seconds=15)).isoformat())
    elif what == "hold":
        cluster.held.symmetric_difference_update({str(value)})
    elif what == "time":
        cluster.now += timedelta(seconds=int(str(value)))
    elif what == "forget":
        others = sorted(key for key in cluster.objects if key[0] != "Pod")
        if others:
            cluster.objects.pop(others[int(str(value)) % len(others)])
    else:
        cluster.pass_time(1)


def recover(cluster: Cluster) -> None:
    """Let every node and every page be well again."""
    cluster.held.clear()
    cluster.lost.clear()
    cluster.run.follows = cluster.run.is_reached = True
    cluster.run.share = 1.0
    cluster.run.canary |= {"process_s": 0.1, "restarts": 0}
    cluster.live(900)
    cluster.now += timedelta(minutes=10)
    cluster.live(900)


@settings(max_examples=30, deadline=None)
@given(st.lists(STEPS, max_size=12), st.booleans(), st.booleans())
def test_every_walk_ends_with_the_wanted_objects_and_without_writes(
    steps: list[tuple[str, object]], has_canary: bool, is_deleted: bool
) -> None:
    cluster = Cluster(pipeline())
    cluster.live()
    if has_canary:
        play(cluster, "canary", True)
        play(cluster, "image", "image:2")
        cluster.pass_time(13)
        assert "server.canary" in cluster.addresses()
    for what, value in steps:
        play(cluster, what, value)
        if "local" in cluster.pods() and ("ConfigMap", "count-file") in cluster.objects:
            cluster.reconcile()
    if is_deleted:
        cluster.resource["metadata"]["deletionTimestamp"] = cluster.now.isoformat()
        recover(cluster)
        assert cluster.objects == {}
        assert cluster.is_gone
        return
    recover(cluster)
    check(cluster)
    assert cluster.settle() == []
    assert cluster.asked == {}


def check(cluster: Cluster) -> None:
    """Check that each host has one pod, in the slot that the file names, made from the spec that counts."""
    spec = cluster.resource["spec"]
    if spec.get("suspend"):
        assert cluster.pods() == {}
        return
    data = cluster.file()["data"]
    counts = json.loads(data["spec.json"]) if cluster.says("Progressing").startswith("False Rolled") else spec
    hosts = {counts["stages"][0]["host"], counts["stages"][1]["host"]}
    addresses = cluster.addresses()
    assert "server.canary" not in addresses
    assert sorted(cluster.pods()) == sorted(["local", *(addresses[host] for host in hosts)])
    assert cluster.says("Ready").startswith("True Running")
    blur = cluster.pods()[addresses[counts["stages"][1]["host"]]]
    assert blur["spec"]["containers"][0]["image"] == counts.get("image", "image:1")
    file = json.loads(data["pipeline.yaml"])
    assert [stage.get("on", "local") for stage in file["stages"]] == [
        stage.get("host", "local") for stage in counts["stages"]
    ]
    assert file["stages"][0]["options"] == counts["stages"][0]["options"]
    assert json.loads(data.get("update.json", "{}")).get("phase", "") == ""
