"""Bound pods that their agent has not reported yet: one is certain, several are not."""

import json

import numpy as np
import pytest
from msgspec import convert, to_builtins

from fairlead.catalog import Catalog
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.manifest.types.kubernetes import Node
from fairlead.schedule.state.unconfirmed import EXPIRES_AFTER, UnconfirmedPod, UnconfirmedPods
from fairlead.serve.extender.unreported import UnreportedPods, mentions
from tests.serve.extender.test_node_evaluator import World
from tests.serve.scheduler.objects import node, pod


def reported(name: str, **held: int) -> Node:
    """Return a node whose agent reports what pods hold, in MiB on `gpu-0`."""
    allocated = (
        {"gpu-0": {"memory": {f"default/{key}/main": value for key, value in held.items()}}} if held else {}
    )
    document = to_builtins(node(name, 2))
    document["metadata"]["annotations"] = {"fairlead.dev/allocated": json.dumps(allocated)}
    return convert(document, Node)


@pytest.fixture
def world(catalog: Catalog) -> World:
    """Return a cluster in which node `a` has an agent and node `b` has none."""
    world = World(catalog)
    world.evaluator.on_event(ObjectChange(node("a"), reported("a")))
    world.cache.sync()
    return world


def bind_to(world: World, name: str, on: str, mib: int) -> None:
    """Let a pod pass the filter, and bind it to a node."""
    waiting = pod(name, mib=mib)
    assert world.filter(waiting, on).passed
    world.on_pod_event(pod(name, 2, on=on, mib=mib), waiting)


def test_the_accelerator_of_one_pod_is_certain(world: World) -> None:
    bind_to(world, "one", "a", 1024)
    assert len(world.evaluator.unconfirmed) == 0


def test_the_accelerators_of_two_pods_are_uncertain_until_the_agent_reports(world: World) -> None:
    for name in ("one", "two"):
        bind_to(world, name, "a", 1024)
    assert len(world.evaluator.unconfirmed) == 2
    assert not world.filter(pod("large", mib=4096), "a").passed
    world.evaluator.on_event(ObjectChange(reported("a"), reported("a", one=1024)))
    assert len(world.evaluator.unconfirmed) == 0  # the one that is left is certain
    world.cache.sync()
    assert world.filter(pod("large", mib=4096), "a").passed


def test_the_accelerator_of_one_pod_is_uncertain_while_another_is_being_bound(world: World) -> None:
    """The kubelet may admit the other one first, and then it takes the room."""
    bind_to(world, "old", "a", 1792)
    world.evaluator.on_event(ObjectChange(reported("a"), reported("a", old=1792)))
    bind_to(world, "one", "a", 2304)  # beside the old one, according to the cache
    assert world.filter(pod("fits", mib=3072), "a").passed
    world.evaluator.on_event(ObjectChange(pod("fits", mib=3072), None))
    assert world.filter(pod("first", mib=512), "a").passed
    assert world.filter(pod("large", mib=3072), "a").may_change_soon


def test_a_deleted_pod_is_not_unconfirmed_any_more(world: World) -> None:
    for name in ("one", "two", "three"):
        bind_to(world, name, "a", 64)
    world.on_pod_event(pod("one", 3, on="a", mib=64, phase="Failed"), pod("one", 2, on="a", mib=64))
    assert len(world.evaluator.unconfirmed) == 2
    world.evaluator.on_event(ObjectChange(pod("two", 2, on="a", mib=64), None))
    assert len(world.evaluator.unconfirmed) == 1


def test_the_accelerator_of_one_pod_is_uncertain_where_another_ended_meanwhile(world: World) -> None:
    """The kubelet may admit the pod before the other one ends, and then the room is elsewhere."""
    bind_to(world, "old", "a", 3072)
    world.evaluator.on_event(ObjectChange(reported("a"), reported("a", old=3072)))
    bind_to(world, "new", "a", 1024)  # beside the old one, according to the cache
    world.evaluator.on_event(ObjectChange(pod("plain", on="a"), None))
    assert len(world.evaluator.unconfirmed) == 0
    world.evaluator.on_event(ObjectChange(pod("old", 2, on="a", mib=3072), None))
    assert len(world.evaluator.unconfirmed) == 1
    assert world.filter(pod("middle", mib=3072), "a").passed
    world.evaluator.on_event(ObjectChange(reported("a", old=3072), reported("a", new=1024)))
    assert len(world.evaluator.unconfirmed) == 1, "the middle one, which is not bound anywhere"
    bind_to(world, "newer", "a", 64)
    assert world.filter(pod("middle", mib=3072), "a").passed


def test_without_an_agent_no_report_is_awaited(world: World) -> None:
    for name in ("one", "two"):
        bind_to(world, name, "b", 1024)
    assert len(world.evaluator.unconfirmed) == 0


def test_the_wait_for_an_agents_report_is_limited() -> None:
    unconfirmed = UnconfirmedPods()
    unreported = UnreportedPods(unconfirmed)
    for uid in ("x", "y"):
        unreported.add("a", uid, f"default/{uid}", UnconfirmedPod(np.zeros(1, np.int64), 1, 8, 0, since=0.0))
    assert len(unconfirmed) == 2
    unreported.expire(EXPIRES_AFTER + 1)
    unreported.drop("x")
    assert len(unconfirmed) == 0


def test_a_pod_is_mentioned_by_its_containers_or_with_all_others() -> None:
    assert mentions('{"gpu-0":{"memory":{"default/web/main":64}}}', "default/web")
    assert not mentions('{"gpu-0":{"memory":{"default/web-2/main":64}}}', "default/web")
    assert mentions('{"gpu-0":{"memory":{"*":64}}}', "default/web")
