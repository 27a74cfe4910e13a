"""Learned sizes outlive the scheduler; crashes widen them, and undo right-sizing."""

import json
from typing import Any

import pytest

from fairlead import keys
from fairlead.settings.scheduler import FOOTPRINTS_NAME
from fairlead.sizing.footprint_format import FOOTPRINTS
from tests.serve.scheduler.use.world import SharedNode


def stored(it: SharedNode) -> dict[str, Any]:
    return dict(it.api.get("configmaps", FOOTPRINTS_NAME)["data"])


def test_the_next_replica_knows_what_the_last_one_learned() -> None:
    it = SharedNode()
    it.learn()
    (footprint,) = FOOTPRINTS.decode(stored(it)["footprints"])
    assert footprint.key == "image:engine:1"
    it.effects.abandon(it.replica)
    it.now += 100
    it.start("two")
    it.now += 100
    it.run()
    assert len(it.replica.machine.use.tracker.book) == 1
    it.measure({})
    it.create("a", 6144)
    assert 1.5 < it.size("a") < 2.25


def test_a_replica_that_leads_again_keeps_what_it_had_not_written() -> None:
    it = SharedNode()
    it.learn()
    it.state("engine:2", 1, 2)
    it.now += 100  # nothing was renewed: it leads no more
    it.run()
    it.now += 100
    it.run()
    assert "leading, epoch 2" in it.replica.logged()
    assert {each.key for each in it.replica.machine.use.tracker.book.footprints()} == {
        "image:engine:1",
        "image:engine:2",
    }


def test_it_is_written_once_a_minute_at_most_and_only_if_it_has_changed() -> None:
    it = SharedNode()
    it.create("a", 6144)
    for _ in range(20):
        it.measure({"a": 1.5})
    writes = len(it.api.history["configmaps"])
    assert 2 <= writes <= 20 * 15 / 60 + 1
    it.delete("a")
    for _ in range(20):
        it.measure({})
    assert len(it.api.history["configmaps"]) <= writes + 2


@pytest.mark.parametrize(
    "text", ["nonsense", json.dumps({"version": 99, "footprints": []}), json.dumps({"version": 1})]
)
def test_what_cannot_be_read_is_kept(text: str) -> None:
    it = SharedNode(policy="fairlead-safe")
    it.effects.abandon(it.replica)
    it.api.objects.pop(("configmaps", FOOTPRINTS_NAME), None)
    it.api.create("configmaps", {"metadata": {"name": FOOTPRINTS_NAME}, "data": {"footprints": text}})
    it.now += 100
    it.start("two")
    it.now += 100
    it.run()
    it.learn()
    assert stored(it) == {"footprints": text}
    assert "stays as it is" in it.replica.logged()


CRASHED = {"terminated": {"reason": "Error", "exitCode": 1}}


def test_a_crash_at_the_limit_widens_the_size_of_the_workload() -> None:
    it = SharedNode()
    it.measure({})
    it.create("a", 6144, notes={keys.MEMORY_LIMIT: str(2 << 30)})
    for _ in range(4):
        it.measure({"a": 1.95})
    it.patch_status("a", {"containerStatuses": [{"name": "main", "restartCount": 1, "lastState": CRASHED}]})
    it.measure({"a": 1.0})
    footprint = it.replica.machine.use.tracker.book.get("image:engine:1")
    assert footprint is not None
    assert (footprint.surprises, footprint.refused) == (1, 2 << 30)
    assert "crashed by lack of memory" in it.replica.logged()


def test_a_restart_far_from_any_limit_is_no_crash_by_memory() -> None:
    it = SharedNode()
    it.measure({})
    it.create("a", 6144, notes={keys.MEMORY_LIMIT: str(2 << 30)})
    for _ in range(4):
        it.measure({"a": 0.5})
    it.patch_status("a", {"containerStatuses": [{"name": "main", "restartCount": 1, "lastState": CRASHED}]})
    it.measure({"a": 0.5})
    footprint = it.replica.machine.use.tracker.book.get("image:engine:1")
    assert footprint is not None
    assert footprint.surprises == 0


AUTO = {keys.RIGHTSIZE: "auto"}
KILLED = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}


def test_rightsize_auto_works_under_any_policy_until_a_crash() -> None:
    it = SharedNode("fairlead")
    it.learn()
    it.create("plain", 6144)
    assert it.claimed("plain") == "6144Mi"
    it.delete("plain")
    it.create("a", 6144, notes=AUTO)
    assert 1.5 < it.size("a") < 2.25
    (message,) = it.events("RightSized")
    assert "learned from its workload, instead of the 6.0 GiB that it requests" in message
    it.measure({"a": 1.5})
    it.patch_status("a", {"containerStatuses": [{"name": "main", "restartCount": 1, "lastState": KILLED}]})
    it.measure({"a": 1.5})
    assert len(it.events("RightSizeUndone")) == 1
    it.delete("a")
    it.create("b", 6144, notes=AUTO)
    assert it.claimed("b") == "6144Mi"
    for _ in range(6):
        it.measure({})
    assert json.loads(stored(it)["rightsize-undone"])["keys"] == ["image:engine:1"]
