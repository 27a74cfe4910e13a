"""The operator's machine: whatever happens, in the end exactly the wanted objects exist, and it rests."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.cluster.kinds import CONFIG_MAPS, NODES
from fairlead.keys import FINALIZER, MANAGED_BY
from tests.serve.operator.simulated import Fate, World
from tests.serve.operator.widgets import NODES as WATCHED
from tests.serve.operator.widgets import WidgetController, config_maps, widget


def check(world: World) -> None:
    """Check that the objects are those that the widgets need, and that nothing more is written."""
    widgets = world.api.all("widgets")
    wanted = {
        one["metadata"]["name"]: (one["data"], each["metadata"]["uid"])
        for each in widgets.values()
        for one in config_maps(each)
    }
    found = {
        name: (one["data"], one["metadata"]["ownerReferences"][0]["uid"])
        for name, one in world.api.all("configmaps").items()
        if MANAGED_BY in one["metadata"].get("labels", {})
    }
    assert found == wanted
    pods = {f"{name}-{pod}" for name, each in widgets.items() for pod in each["spec"].get("pods", ())}
    assert world.api.all("pods").keys() == pods
    for each in widgets.values():
        made = each["spec"].get("configs", 0) + len(each["spec"].get("pods", ()))
        assert each["status"]["made"] == made
        assert (FINALIZER in each["metadata"].get("finalizers", ())) or not made
    before = list(world.api.writes)
    world.settle(60.0)
    assert world.api.writes == before, "nothing changes"


def test_a_widget_gets_its_objects_status_event_and_finalizer() -> None:
    world = World()
    world.create(widget("a", configs=3, pods=["x"], text="hello"))
    world.settle()
    check(world)
    (a,) = world.api.all("widgets").values()
    assert a["metadata"]["finalizers"] == [FINALIZER]
    assert a["status"] == {"made": 4, "text": "hello"}
    (event,) = world.api.all("events").values()
    assert (event["reason"], event["involvedObject"]["kind"]) == ("Made", "Widget")
    # The finalizer comes before the first object.
    paths = [path for _, path in world.api.writes]
    assert "widgets" in paths[0]
    assert "configmaps" in paths[1]


def test_a_pass_ends_when_the_watch_shows_what_it_wrote_or_after_some_seconds() -> None:
    world = World()
    (one,) = world.replicas
    world.settle(3.0)
    world.create(widget("a", configs=1, text="x"))
    for wait in (0.0, 6.0):
        one.watch()
        while one.pending:
            one.perform()
        queue = one.machine.gauges(world.clock.now).queue
        assert queue["running"] == 1, "the store is behind: another pass would decide by old objects"
        world.clock.now += wait
        one.wake()
    world.settle()
    assert one.machine.gauges(world.clock.now).queue == {"active": 0, "running": 0, "backoff": 0}
    check(world)


def test_a_changed_spec_changes_objects_and_deletes_those_that_are_not_wanted() -> None:
    world = World()
    world.create(widget("a", configs=3, pods=["x", "y"], text="one"))
    world.settle()
    world.edit("widgets", "a", {"spec": {"configs": 1, "pods": ["y"], "text": "two"}})
    world.settle()
    check(world)


def test_objects_to_be_kept_are_not_deleted() -> None:
    world = World()
    world.create(widget("a", pods=["x", "y"]))
    world.settle()
    world.edit("widgets", "a", {"spec": {"pods": [], "keep": ["a-x"]}})
    world.settle()
    assert world.api.all("pods").keys() == {"a-x"}


def test_the_finalizer_goes_when_the_controller_has_finished() -> None:
    world = World()
    world.create(widget("a", configs=2, pods=["x"]))
    world.settle()
    world.edit("pods", "a-x", {"metadata": {"finalizers": ["test/hold"]}})
    world.delete("widgets", "a")
    world.settle()
    assert world.api.all("widgets").keys() == {"a"}
    assert world.api.all("configmaps").keys() == {"a-0", "a-1"}, "they stay until the pods are gone"
    world.edit("pods", "a-x", {"metadata": {"finalizers": None}})
    world.settle()
    assert not world.api.all("widgets") | world.api.all("configmaps") | world.api.all("pods")


@pytest.mark.parametrize(
    ("plural", "name", "patch"),
    [
        ("configmaps", "a-0", {"data": {"text": "edited"}}),
        ("configmaps", "a-0", {"data": None}),
        ("configmaps", "a-0", {"metadata": {"labels": {MANAGED_BY: "me"}}}),
        ("configmaps", "a-0", {"metadata": {"annotations": {"fairlead.dev/applied": "v1 0"}}}),
        ("configmaps", "a-0", {"metadata": {"ownerReferences": None}}),
        ("pods", "a-x", {"metadata": {"labels": {"pod": "other"}}}),
        ("widgets", "a", {"metadata": {"finalizers": None}}),
    ],
)
def test_what_another_client_changes_is_repaired(plural: str, name: str, patch: dict[str, Any]) -> None:
    world = World()
    world.create(widget("a", configs=1, pods=["x"], text="right"))
    world.settle()
    world.edit(plural, name, patch)
    world.settle()
    check(world)
    assert world.api.all("pods")["a-x"]["metadata"]["labels"]["pod"] == "x"


def test_what_another_client_adds_stays() -> None:
    world = World()
    world.create(widget("a", configs=1, text="right"))
    world.settle()
    world.edit("configmaps", "a-0", {"metadata": {"labels": {"team": "shop"}}})
    world.settle()
    assert world.api.all("configmaps")["a-0"]["metadata"]["labels"]["team"] == "shop"


def test_an_object_that_is_wanted_as_it_is_is_not_written_again() -> None:
    world = World()
    world.create(widget("a", configs=2, text="right", copy=True))
    world.settle()
    check(world)


def test_a_status_that_another_client_wrote_is_repaired() -> None:
    world = World()
    world.create(widget("a", configs=1, text="right"))
    world.settle()
    kind, key = world.api.kinds["widgets.operator.test.fairlead.dev"], ("default", "a")
    world.api.server.patch(kind, key, {"status": {"made": 9, "more": 1}}, "merge", "kubectl", status=True)
    world.settle()
    assert world.api.all("widgets")["a"]["status"] == {"made": 1, "text": "right"}


def test_a_new_replica_writes_nothing_where_everything_is_as_it_must_be() -> None:
    world = World()
    world.create(widget("a", configs=2, pods=["x"], text="right"))
    world.settle()
    world.kill(world.replicas[0])
    world.start("two")
    before = list(world.api.writes)
    world.settle(120.0)
    assert world.replicas[1].leads
    assert world.api.writes == before
    world.edit("configmaps", "a-0", {"data": {"text": "wrong"}})
    world.settle()
    check(world)


def test_the_spec_of_a_pod_is_never_patched_and_the_controller_learns_why() -> None:
    world = World()
    world.create(widget("a", pods=["x"], image="one"))
    world.settle()
    world.edit("widgets", "a", {"spec": {"image": "two"}})
    world.settle()
    assert world.api.all("pods")["a-x"]["spec"]["containers"][0]["image"] == "one"
    assert world.api.all("widgets")["a"]["status"]["blocked"] == ["a-x"]
    before = list(world.api.writes)
    world.settle(120.0)
    assert world.api.writes == before
    world.delete("pods", "a-x")
    world.settle()
    assert world.api.all("pods")["a-x"]["spec"]["containers"][0]["image"] == "two"
    assert "blocked" not in world.api.all("widgets")["a"]["status"]


@pytest.mark.parametrize("labels", [{}, {MANAGED_BY: "fairlead"}])
def test_the_object_of_another_owner_is_left_alone(labels: dict[str, str]) -> None:
    world = World()
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a-0", "labels": labels}}
    world.create({**theirs, "data": {"mine": "yes"}})
    world.create(widget("a", configs=2, text="ours"))
    world.settle()
    assert world.api.all("configmaps")["a-0"]["data"] == {"mine": "yes"}
    assert "a-1" in world.api.all("configmaps")
    (line,) = [line for line in world.replicas[0].lines if "a-0" in line]
    assert "another client made an object of this name" in line
    assert "ObjectNotMade" in {event["reason"] for event in world.api.all("events").values()}
    world.delete("configmaps", "a-0")
    world.settle(90.0)
    check(world)


def test_a_controller_that_raises_does_not_stop_the_others_and_is_asked_later_and_later() -> None:
    controller = WidgetController()
    world = World(controllers=[controller])
    world.create(widget("bad", **{"raise": "no such field"}))
    world.create(widget("good", configs=1, text="x"))
    world.settle(300.0)
    assert "good-0" in world.api.all("configmaps")
    assert controller.passes < 30
    assert [line for line in world.replicas[0].lines if "no such field" in line]
    world.edit("widgets", "bad", {"spec": {"raise": None, "configs": 1}})
    world.settle(5.0)
    assert "bad-0" in world.api.all("configmaps"), "a changed spec does not wait"


def test_a_change_of_a_watched_kind_reconciles_every_resource_and_a_heartbeat_none() -> None:
    controller = WidgetController(watches=(WATCHED,))
    world = World(controllers=[controller])
    for name in ("a", "b"):
        world.create(widget(name, configs=1, text="x"))
    world.settle()
    world.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    world.settle()
    assert {one["status"]["nodes"] for one in world.api.all("widgets").values()} == {1}
    before = controller.passes
    heartbeat = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:01Z"}
    for second in range(2, 9):
        beat = {**heartbeat, "lastHeartbeatTime": f"2026-01-01T00:00:0{second}Z"}
        patch = {"status": {"conditions": [beat]}}
        world.api.server.patch(NODES, ("", "n1"), patch, "merge", "kubelet", status=True)
        world.settle(10.0)
    assert controller.passes == before + 2, "only the first condition is more than a heartbeat"
    for number in range(20):
        labels = {"metadata": {"labels": {"number": str(number)}}}
        world.api.server.patch(NODES, ("", "n1"), labels, "merge", "kubectl")
        world.settle(0.5)
    assert controller.passes <= before + 2 + 2 * 4, "at most once in five seconds"


def test_a_replica_that_stops_releases_the_lease_and_the_next_one_leads_at_once() -> None:
    world = World("one")
    world.create(widget("a", configs=1, text="x"))
    world.settle()
    other = world.start("two")
    world.replicas[0].stop()
    world.settle(3.0)
    assert world.replicas[0].machine.finished
    assert "stopped; released the Lease" in world.replicas[0].lines
    assert other.leads


def test_the_api_server_is_away_and_the_operator_goes_on() -> None:
    world = World()
    world.create(widget("a", configs=2, text="x"))
    world.settle(1.0)
    world.edit("widgets", "a", {"spec": {"text": "y"}})
    (one,) = world.replicas
    one.watch()
    for _ in range(120):
        while one.pending:
            one.perform(0, "failed")
        world.clock.now += 0.5
        one.wake()
    assert not one.leads
    world.settle()
    check(world)
    assert CONFIG_MAPS.plural in {path.rsplit("/", 2)[1] for _, path in world.api.writes}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["create", "edit", "delete", "foreign", "vanish", "watch", "perform", "pass", "kill"]
        ),
        st.integers(0, 2),
        st.integers(0, 7),
        st.sampled_from(["done", "done", "done", "lost", "failed", "late"]),
    ),
    max_size=60,
)


@given(STEPS)
def test_whatever_happens_exactly_the_wanted_objects_exist_in_the_end(
    steps: list[tuple[str, int, int, Fate]],
) -> None:
    world = World("one", "two")
    for number, (what, which, amount, fate) in enumerate(steps):
        _step(world, number, what, which, amount, fate)
    for replica in world.replicas:
        replica.arrive()
    world.settle(120.0)
    check(world)


def _step(world: World, number: int, what: str, which: int, amount: int, fate: Fate) -> None:
    name = "abc"[which]
    widgets, configs = world.api.all("widgets"), world.api.all("configmaps")
    running = world.running()
    replica = running[which % len(running)]
    match what:
        case "create" if name not in widgets:
            world.create(widget(name, configs=amount % 4, pods=["x"] * (amount % 2), text=str(number)))
        case "edit" if name in widgets:
            world.edit("widgets", name, {"spec": {"configs": amount % 4, "text": str(number)}})
        case "delete" if name in widgets:
            world.delete("widgets", name)
        case "foreign" if f"{name}-0" in configs:
            world.edit("configmaps", f"{name}-0", {"data": {"text": f"edited {number}"}})
        case "vanish" if f"{name}-0" in configs:
            world.delete("configmaps", f"{name}-0")
        case "watch":
            replica.watch()
        case "perform":
            for _ in range(amount):
                if replica.pending:
                    replica.perform(which % len(replica.pending), fate)
        case "pass":
            world.clock.now += amount
            replica.wake()
        case "kill":
            world.kill(replica)
            world.start(f"replica-{number}")
