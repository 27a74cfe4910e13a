"""Pods that are on a node and that its agent has yet to tell of: one is no riddle, several are."""

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


def agents_word(name: str, **held: int) -> Node:
    """Return a node whose agent says what pods hold, in MiB on `gpu-0`."""
    said = (
        {"gpu-0": {"memory": {f"default/{key}/main": value for key, value in held.items()}}} if held else {}
    )
    document = to_builtins(node(name, 2))
    document["metadata"]["annotations"] = {"fairlead.dev/allocated": json.dumps(said)}
    return convert(document, Node)


@pytest.fixture
def world(catalog: Catalog) -> World:
    """Return a world in which node `a` has an agent and node `b` has none."""
    world = World(catalog)
    world.judge.hear(ObjectChange(node("a"), agents_word("a")))
    world.cache.sync()
    return world


def arrive(world: World, name: str, on: str, mib: int) -> None:
    """Let a pod pass to a node, and be seen there."""
    waiting = pod(name, mib=mib)
    assert world.filter(waiting, on).passed
    world.see(pod(name, 2, on=on, mib=mib), waiting)


def test_of_one_pod_the_place_is_known(world: World) -> None:
    arrive(world, "one", "a", 1024)
    assert len(world.judge.doubts) == 0


def test_of_two_the_order_is_not_until_the_agent_tells(world: World) -> None:
    for name in ("one", "two"):
        arrive(world, name, "a", 1024)
    assert len(world.judge.doubts) == 2
    assert not world.filter(pod("large", mib=4096), "a").passed
    world.judge.hear(ObjectChange(agents_word("a"), agents_word("a", one=1024)))
    assert len(world.judge.doubts) == 0  # of the one that is left it is known
    world.cache.sync()
    assert world.filter(pod("large", mib=4096), "a").passed


def test_a_pod_that_goes_is_in_doubt_no_more(world: World) -> None:
    for name in ("one", "two", "three"):
        arrive(world, name, "a", 64)
    world.see(pod("one", 3, on="a", mib=64, phase="Failed"), pod("one", 2, on="a", mib=64))
    assert len(world.judge.doubts) == 2
    world.judge.hear(ObjectChange(pod("two", 2, on="a", mib=64), None))
    assert len(world.judge.doubts) == 1


def test_of_one_the_place_is_not_known_where_another_left_meanwhile(world: World) -> None:
    """The agent may come to the pod before it hears of the leaving, and then the room is elsewhere."""
    arrive(world, "old", "a", 3072)
    world.judge.hear(ObjectChange(agents_word("a"), agents_word("a", old=3072)))
    arrive(world, "new", "a", 1024)  # beside the old one, says the cache
    world.judge.hear(ObjectChange(pod("plain", on="a"), None))
    assert len(world.judge.doubts) == 0
    world.judge.hear(ObjectChange(pod("old", 2, on="a", mib=3072), None))
    assert len(world.judge.doubts) == 1
    assert world.filter(pod("middle", mib=3072), "a").passed
    world.judge.hear(ObjectChange(agents_word("a", old=3072), agents_word("a", new=1024)))
    assert len(world.judge.doubts) == 1, "of the middle one, which nobody has seen anywhere"
    arrive(world, "newer", "a", 64)
    assert world.filter(pod("middle", mib=3072), "a").passed


def test_where_there_is_no_agent_nobody_is_waited_for(world: World) -> None:
    for name in ("one", "two"):
        arrive(world, name, "b", 1024)
    assert len(world.judge.doubts) == 0


def test_an_agent_that_never_tells_is_not_waited_for_for_ever() -> None:
    doubts = UnconfirmedPods()
    untold = UnreportedPods(doubts)
    for uid in ("x", "y"):
        untold.add("a", uid, f"default/{uid}", UnconfirmedPod(np.zeros(1, np.int64), 1, 8, 0, since=0.0))
    assert len(doubts) == 2
    untold.expire(EXPIRES_AFTER + 1)
    untold.drop("x")
    assert len(doubts) == 0


def test_a_pod_is_mentioned_by_its_containers_or_with_all_others() -> None:
    assert mentions('{"gpu-0":{"memory":{"default/web/main":64}}}', "default/web")
    assert not mentions('{"gpu-0":{"memory":{"default/web-2/main":64}}}', "default/web")
    assert mentions('{"gpu-0":{"memory":{"*":64}}}', "default/web")
