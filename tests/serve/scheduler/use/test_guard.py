"""Before the memory of an accelerator is full, elastic pods shrink, then the lowest priority leaves."""

from fairlead import keys
from fairlead.cache.types import DISRUPTION
from fairlead.units import Bytes
from fairlead.use import UseFault
from tests.serve.scheduler.use.world import SharedNode


def shared() -> SharedNode:
    """Return a node with three pods of one image, closer than their requests allow."""
    it = SharedNode()
    it.learn()
    for name, priority in (("low", 0), ("mid", 5), ("high", 10)):
        it.create(name, 6144, priority=priority)
        it.measure(dict.fromkeys(it.bound(), 1.5))
    assert it.bound() == ["high", "low", "mid"]
    return it


def test_a_pod_that_grows_costs_the_lowest_priority_before_the_device_is_full() -> None:
    it = shared()
    held = 1.5
    while not it.api.evicted and held < 5:
        held += 0.4
        it.measure({"low": 1.5, "mid": held, "high": 1.5})
    assert 1.5 + held + 1.5 < 8
    (gone,) = it.api.evicted
    assert gone["metadata"]["name"] == "low"
    (message,) = it.events("AcceleratorMemoryLow")
    assert "gpu-0 of n1" in message
    assert "8.0 GiB in use" in message
    conditions = {each["type"]: each for each in gone["status"]["conditions"]}
    assert conditions[DISRUPTION]["reason"] == "AcceleratorMemory"
    assert it.replica.machine.use.actions["evict"] == 1


def test_an_elastic_pod_shrinks_first() -> None:
    it = SharedNode()
    it.measure({})
    book = it.replica.machine.use.tracker.book
    book.state(
        "image:engine:1", least=Bytes(1 << 30), full=Bytes(3 << 30), now=it.replica.machine.use.tracker.now
    )
    notes = {keys.ELASTIC: "true"}
    it.learn("other:1", 4.4)
    it.create("soft", 6144, "other:1")
    it.measure({"soft": 4.4})
    it.create("elastic", 6144, notes=notes)
    assert it.pod("elastic").metadata.annotations[keys.MEMORY_LIMIT] == str(1 << 30)
    assert it.bound() == ["elastic", "soft"]
    it.measure({"soft": 4.4, "elastic": 3.4})
    assert not it.api.evicted
    assert int(it.pod("elastic").metadata.annotations[keys.MEMORY_LIMIT]) < 3.4 * (1 << 30)
    (message,) = it.events("MemoryLimitLowered")
    assert "at its start does not follow" in message


def test_pods_of_other_schedulers_are_never_evicted() -> None:
    it = SharedNode()
    it.measure({})
    it.create("theirs", 4096, schedulerName="default-scheduler", nodeName="n1")
    it.create("ours", 1024, priority=100)
    it.measure({"theirs": 6.9, "ours": 1.0})
    assert [gone["metadata"]["name"] for gone in it.api.evicted] == ["ours"]


def test_nothing_is_evicted_by_figures_that_are_stale() -> None:
    it = shared()
    for _ in range(6):
        it.fail(UseFault.UNREACHABLE)
    it.measure({"low": 1.5, "mid": 4.9, "high": 1.5}, lag=300)
    assert not it.api.evicted


def test_the_default_policy_has_no_guard() -> None:
    it = SharedNode("fairlead")
    it.create("a", 6144)
    for _ in range(3):
        it.measure({"a": 7.99})
    assert not it.api.evicted
