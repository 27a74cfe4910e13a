"""Evaluating nodes of a small cluster: which pass, why others do not, and their scores."""

import pytest
from msgspec import convert, to_builtins

from fairlead import keys
from fairlead.cache.cache import SchedulerCache
from fairlead.cache.types import LivePod
from fairlead.catalog import Catalog
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.modelprofiles.analysed import analysed_profile
from fairlead.placement import Reason
from fairlead.schedule import policy_named
from fairlead.serve.extender.node_evaluator import UNCONFIRMED_NODE, UNKNOWN_NODE, NodeEvaluator, NodeVerdicts
from tests.estimate.networks import network
from tests.profiles import MADE
from tests.serve.scheduler.objects import device_slice, node, pod

LACKS = "node(s) whose accelerators lack memory (need 3.0 GiB, most 1.0 GiB free)"


class World:
    """An evaluator and its cluster: nodes `a` and `b` with two accelerators of 4 GiB each, `c` with none."""

    def __init__(self, catalog: Catalog, policy: str = "fairlead") -> None:
        self.cache = SchedulerCache(catalog, "")
        self.evaluator = NodeEvaluator(self.cache, policy_named(policy))
        for name in ("a", "b", "c"):
            self.cache.on_event(ObjectChange(None, node(name)))
        for name in ("a", "b"):
            self.cache.on_event(ObjectChange(None, device_slice(name)))
        self.cache.sync()

    def on_pod_event(self, now: LivePod, before: LivePod | None = None) -> None:
        """Send a watch event of a pod."""
        self.evaluator.on_event(ObjectChange(before, now))
        self.cache.sync()

    def filter(self, asked: LivePod, *names: str, now: float = 0.0) -> NodeVerdicts:
        return self.evaluator.filter(asked, names or ("a", "b", "c"), now)


@pytest.fixture
def world(catalog: Catalog) -> World:
    return World(catalog)


def test_nodes_pass_where_one_accelerator_has_room(world: World) -> None:
    for number in range(2):
        world.on_pod_event(pod(f"on-a-{number}", on="a", mib=3072))
    verdict = world.filter(pod("p", mib=3072))
    assert verdict.passed == ["b"]
    assert verdict.failed == {"a": LACKS}  # 2 GiB are free there, one on each
    assert verdict.for_good == {"c": "node(s) without an accelerator"}
    assert verdict.reasons == {Reason.DEVICE_MEMORY.value: 1, Reason.NO_DEVICE.value: 1}


def test_an_accelerator_of_unknown_speed_passes_last_and_not_under_an_slo(catalog: Catalog) -> None:
    world = World(catalog, "fastest")
    world.cache.on_event(ObjectChange(None, analysed_profile(network("mobilenet_v1"), MADE, "n")))
    world.cache.on_event(ObjectChange(None, node("d")))
    world.cache.on_event(ObjectChange(None, device_slice("d", model="v340")))
    world.cache.sync()
    named = pod("p", notes={keys.MODEL: "mobilenet_v1", keys.COUNT: "1"})
    assert list(world.filter(named, "a", "d").passed) == ["a", "d"]
    first, last = world.evaluator.prioritize(named, ["a", "d"])
    assert first > last
    strict = pod("q", notes={keys.MODEL: "mobilenet_v1", keys.COUNT: "1", keys.SLO: "5s"})
    verdict = world.filter(strict, "a", "d")
    assert list(verdict.passed) == ["a"]
    why = "not known: no peak in the catalog; calibrate, or add a row"
    [text] = {**verdict.failed, **verdict.for_good}.values()
    assert text == f"node(s) whose accelerators have no estimate to hold against the SLO ({why})"


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (pod("p", mib=8192), "lack memory (need 8.0 GiB, most 4.0 GiB free)"),
        (pod("p", mib=64, notes={"fairlead.dev/accelerators": "a10"}), "are not a10"),
    ],
)
def test_a_node_that_no_preemption_could_help_is_unresolvable(
    world: World, asked: LivePod, text: str
) -> None:
    verdict = world.filter(asked, "a", "b")
    assert not verdict.failed
    assert verdict.for_good == dict.fromkeys(("a", "b"), f"node(s) whose accelerators {text}")


def test_a_pod_without_accelerators_passes_everywhere(world: World) -> None:
    assert list(world.filter(pod("p")).passed) == ["a", "b", "c"]
    assert world.evaluator.prioritize(pod("p"), ["a", "b"]) == [0, 0]
    claiming = pod("p", mib=1, resourceClaims=[{"name": "x", "resourceClaimName": "y"}])
    assert list(world.filter(claiming).passed) == ["a", "b", "c"]
    assert len(world.evaluator.unconfirmed) == 0


def test_an_invalid_request_fails_every_node(world: World) -> None:
    verdict = world.filter(pod("p", mib=-5))
    assert set(verdict.for_good) == {"a", "b", "c"}
    (text,) = set(verdict.for_good.values())
    assert text.startswith("node(s) could not be evaluated: pod default/p: ")
    assert verdict.reasons == {Reason.INVALID.value: 3}
    assert world.evaluator.prioritize(pod("p", mib=-5), ["a"]) == [0]


def test_labels_taints_and_pod_affinity_are_left_to_kube_scheduler(world: World) -> None:
    assert world.filter(pod("p", mib=1024, nodeSelector={"x": "y"}), "a").passed == ("a",)


def test_an_unknown_node_is_refused_for_now(world: World) -> None:
    verdict = world.filter(pod("p", mib=1024), "a", "new")
    assert verdict.passed == ["a"]
    assert verdict.failed == {"new": "node(s) that fairlead has not seen yet"}
    assert verdict.reasons == {UNKNOWN_NODE: 1}
    world.cache.on_event(ObjectChange(None, node("odd", cpu="x")))
    world.cache.sync()
    assert world.filter(pod("p", mib=1024), "odd").failed["odd"].startswith("node(s) that cannot be read: ")


def test_an_unconfirmed_pod_counts_on_every_node_that_passed(world: World) -> None:
    first, second, third = (pod(name, mib=3072) for name in ("first", "second", "third"))
    assert world.filter(first, "a", "b").passed == ("a", "b")
    assert world.filter(second, "a", "b").passed == ("a", "b")  # two accelerators, one may be taken
    refused = world.filter(third, "a", "b")  # both may be taken on either
    assert not refused.passed
    assert refused.may_change_soon
    assert refused.reasons == {UNCONFIRMED_NODE: 2}
    world.on_pod_event(pod("first", 2, on="a", mib=3072), first)
    assert world.filter(third, "a", "b").passed == ["b"]


@pytest.mark.parametrize("end", ["bound", "ended", "gone", "unschedulable", "filtered again", "late"])
def test_a_pod_is_confirmed_by_an_event_of_the_pod(world: World, end: str) -> None:
    first, other = pod("first", mib=3072), pod("other", mib=3072)
    world.on_pod_event(first)
    for _ in range(2):
        world.filter(first, "a")
    world.filter(pod("more", mib=3072), "a")
    assert world.filter(other, "a").may_change_soon
    status = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    if end == "bound":
        world.on_pod_event(pod("first", 2, on="b", mib=3072), first)
    elif end == "ended":
        world.on_pod_event(pod("first", 2, phase="Failed", mib=3072), first)
    elif end == "gone":
        world.evaluator.on_event(ObjectChange(first, None))
        world.cache.sync()
    elif end == "unschedulable":
        world.on_pod_event(with_condition(first, status), first)
        assert world.filter(other, "a", now=4.0).may_change_soon, "the mark may be of the attempt before"
    elif end == "filtered again":
        world.filter(first, "b")
    later = {"late": 31.0, "unschedulable": 5.1}.get(end, 0.0)
    assert world.filter(other, "a", now=later).passed == ("a",)


def with_condition(of: LivePod, condition: dict[str, str]) -> LivePod:
    """Return a pod with a condition."""
    document = to_builtins(of)
    return convert({**document, "status": {"conditions": [condition]}}, LivePod)


def test_scores_follow_the_policy(catalog: Catalog) -> None:
    for policy, best in (("binpack", "a"), ("spread", "b")):
        world = World(catalog, policy)
        world.on_pod_event(pod("there", on="a", mib=1024))
        scores = dict(
            zip(("a", "b", "c"), world.evaluator.prioritize(pod("p", mib=1024), ("a", "b", "c")), strict=True)
        )
        assert scores[best] == 10
        assert scores["c"] == 0
        assert sorted(scores.values()) == [0, 9, 10]
