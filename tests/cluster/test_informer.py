"""The informer on a cluster in memory that has its moods."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from random import Random
from typing import Any

import pytest

from fairlead.cluster.kinds import CONFIG_MAPS, PODS, Kind
from fairlead.cluster.meta import Listing, T, WatchEvent
from fairlead.cluster.objects import ConfigMap
from fairlead.cluster.watch.changes import Key, ObjectChange
from fairlead.cluster.watch.informer import Informer
from fairlead.cluster.watch.reflector import WatchTiming
from fairlead.compat.aio import timeout
from fairlead.errors import (
    AccessError,
    ClusterError,
    ClusterUnavailableError,
    FairleadError,
    GoneError,
    InvalidError,
    MissingApiError,
)
from tests.cluster.contract.arena import config_map, pod
from tests.fakecluster.cluster import FakeCluster

QUICK = WatchTiming(
    idle_timeout=0.3, watch=(2.0, 4.0), healthy_after=0.2, initial_backoff=0.005, max_backoff=0.05
)


class Moody(FakeCluster):
    """A cluster that refuses, falls silent or repeats itself as a test tells it to."""

    def __init__(self) -> None:
        super().__init__(bookmark_every=0.1)
        self.asked: list[str] = []
        self.refusals: dict[str, FairleadError] = {}
        """What list, stream and watch are answered with."""
        self.silent = False

    async def list(self, kind: Kind[T], *args: Any, **query: Any) -> Listing[T]:
        self._ask("list")
        return await super().list(kind, *args, **query)

    async def watch(self, kind: Kind[T], *args: Any, **query: Any) -> AsyncGenerator[WatchEvent[T], None]:
        self._ask("stream" if query.get("send_initial_events") else "watch")
        async with aclosing(super().watch(kind, *args, **query)) as events:
            async for event in events:
                if self.silent:
                    await asyncio.sleep(query["idle"])
                    raise ClusterUnavailableError("memory did not answer in time") from TimeoutError()
                yield event

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if what in self.refusals:
            raise self.refusals[what]


def play(scenario: Callable[[Moody], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Make a test of a scenario on a cluster of its own."""

    def test() -> None:
        async def limited() -> None:
            async with timeout(20):
                await scenario(Moody())

        asyncio.run(limited())

    test.__name__ = test.__qualname__ = scenario.__name__
    return test


def informer(cluster: FakeCluster, **more: Any) -> Informer[ConfigMap]:
    return Informer(cluster, CONFIG_MAPS, "default", timing=QUICK, random=Random(1), **more)


async def write(cluster: FakeCluster, name: str, value: str = "") -> None:
    await cluster.patch(CONFIG_MAPS, name, config_map(name, {"k": value}), "default", patch_type="apply")


async def settled(cluster: FakeCluster, copy: Informer[ConfigMap]) -> None:
    """Wait until the copy is the cluster's state."""
    listing = await FakeCluster.list(cluster, CONFIG_MAPS, "default")
    truth = {item.key: item for item in listing.items}
    while copy.objects != truth:
        await asyncio.sleep(0.005)


async def troubled(copy: Informer[ConfigMap]) -> None:
    """Wait until the informer has noticed that something is wrong."""
    while copy.last_error is None:
        await asyncio.sleep(0.005)


class Told:
    """Keeps what a handler is told, and the state that follows from it."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, str]] = []
        self.state: dict[Key, ConfigMap] = {}

    def __call__(self, change: ObjectChange[ConfigMap]) -> None:
        self.changes.append((change.type, change.key[1]))
        assert self.state.get(change.key) == change.old
        if change.new is None:
            del self.state[change.key]
        else:
            self.state[change.key] = change.new


@play
async def test_what_is_there_and_what_happens_is_told_once(cluster: Moody) -> None:
    await write(cluster, "a")
    told = Told()
    copy = informer(cluster)
    copy.subscribe(told)
    assert not copy.synced
    assert copy.age == float("inf")
    async with copy:
        await copy.wait_for_sync()
        await write(cluster, "b")
        await write(cluster, "a", "new")
        await cluster.delete(CONFIG_MAPS, "b", "default")
        await settled(cluster, copy)
    assert told.changes == [("added", "a"), ("added", "b"), ("modified", "a"), ("deleted", "b")]
    assert cluster.asked == ["stream"]


@play
async def test_who_comes_late_is_told_what_is_there(cluster: Moody) -> None:
    await write(cluster, "a")
    async with informer(cluster) as copy:
        await copy.wait_for_sync()
        told = Told()
        copy.subscribe(told)
        assert told.changes == [("added", "a")]
        async with aclosing(copy.changes()) as changes:
            assert (await anext(changes)).key == ("default", "a")
            await write(cluster, "b")
            assert (await anext(changes)).type == "added"
            for value in "123":
                await write(cluster, "b", value)
            await settled(cluster, copy)
            change = await anext(changes)
            assert (change.type, change.object.data) == ("modified", {"k": "3"}), "the latest, not each"


@play
async def test_a_cut_is_healed_without_a_list(cluster: Moody) -> None:
    told = Told()
    async with informer(cluster) as copy:
        copy.subscribe(told)
        await copy.wait_for_sync()
        for n in range(5):
            await write(cluster, f"a{n}")
            await settled(cluster, copy)
            cluster.disconnect()
            await write(cluster, f"b{n}")
            await settled(cluster, copy)
    assert cluster.asked.count("stream") == 1
    assert "list" not in cluster.asked
    assert len(told.changes) == 10


@play
async def test_what_was_deleted_unseen_is_deleted_all_the_same(cluster: Moody) -> None:
    told = Told()
    for name in "abc":
        await write(cluster, name)
    async with informer(cluster) as copy:
        copy.subscribe(told)
        await copy.wait_for_sync()
        cluster.refusals = {"watch": GoneError("gone"), "stream": ClusterUnavailableError("away")}
        cluster.disconnect()
        await troubled(copy)
        await cluster.delete(CONFIG_MAPS, "a", "default")
        await cluster.delete(CONFIG_MAPS, "b", "default")
        await write(cluster, "b", "another of that name")
        await write(cluster, "c", "changed")
        cluster.compact()
        cluster.refusals = {}
        await settled(cluster, copy)
    after = told.changes[3:]
    assert sorted(after) == [("added", "b"), ("deleted", "a"), ("deleted", "b"), ("modified", "c")]
    assert after.index(("deleted", "b")) < after.index(("added", "b"))


@play
async def test_compaction_is_a_list_and_a_difference(cluster: Moody) -> None:
    await write(cluster, "a")
    async with informer(cluster) as copy:
        await copy.wait_for_sync()
        cluster.refusals["watch"] = ClusterUnavailableError("away")
        cluster.disconnect()
        await troubled(copy)
        await cluster.delete(CONFIG_MAPS, "a", "default")
        cluster.compact()
        cluster.refusals = {}
        await settled(cluster, copy)
        assert cluster.asked.count("stream") == 2


@play
async def test_silence_is_broken_by_a_list(cluster: Moody) -> None:
    async with informer(cluster) as copy:
        await copy.wait_for_sync()
        cluster.silent = True
        await write(cluster, "a")
        await troubled(copy)
        assert copy.age >= 0.9 * QUICK.idle_timeout
        assert copy.synced
        cluster.silent = False
        await settled(cluster, copy)
        assert copy.last_error is None
        assert copy.age < QUICK.idle_timeout


@play
async def test_a_server_that_does_not_stream_is_listed(cluster: Moody) -> None:
    cluster.refusals["stream"] = InvalidError("sendInitialEvents is forbidden")
    await write(cluster, "a")
    async with informer(cluster) as copy:
        await copy.wait_for_sync()
        await write(cluster, "b")
        await settled(cluster, copy)
    assert cluster.asked[:3] == ["stream", "list", "watch"]


@pytest.mark.parametrize("error", [AccessError("you may not"), MissingApiError("no such kind")])
def test_what_a_person_must_mend_is_raised_at_the_start(error: FairleadError) -> None:
    async def scenario() -> None:
        cluster = Moody()
        cluster.refusals = dict.fromkeys(("stream", "list", "watch"), error)
        copy = informer(cluster)
        with pytest.raises(type(error)):
            async with copy:
                await copy.wait_for_sync()
        with pytest.raises(type(error)):
            async with informer(cluster) as other:
                assert [change async for change in other.changes()] == []

    asyncio.run(scenario())


@play
async def test_what_a_person_must_mend_later_is_said_and_waited_for(cluster: Moody) -> None:
    await write(cluster, "a")
    async with informer(cluster) as copy:
        await copy.wait_for_sync()
        cluster.refusals = dict.fromkeys(("stream", "list", "watch"), AccessError("no longer"))
        cluster.disconnect()
        while copy.last_error is None or "no longer" not in str(copy.last_error):
            await asyncio.sleep(0.01)
        assert list(copy.objects) == [("default", "a")]
        await write(cluster, "b")
        cluster.refusals = {}
        await settled(cluster, copy)


@play
async def test_a_handler_that_fails_ends_the_informer_loudly(cluster: Moody) -> None:
    def fail(change: ObjectChange[ConfigMap]) -> None:
        raise RuntimeError("a bug")

    await write(cluster, "a")
    copy = informer(cluster)
    copy.subscribe(fail)
    with pytest.raises(RuntimeError, match="a bug"):
        await copy.run()


@play
async def test_an_informer_that_was_stopped_can_go_on(cluster: Moody) -> None:
    told = Told()
    copy = informer(cluster)
    copy.subscribe(told)
    for name in "ab":
        running = asyncio.create_task(copy.run())
        await write(cluster, name)
        await copy.wait_for_sync()
        await settled(cluster, copy)
        running.cancel()
        await asyncio.wait([running])
    assert told.changes == [("added", "a"), ("added", "b")]


@play
async def test_whoever_waits_for_an_informer_that_is_stopped_is_told(cluster: Moody) -> None:
    cluster.refusals = dict.fromkeys(("stream", "list"), ClusterUnavailableError("away"))
    copy = informer(cluster)
    running = asyncio.create_task(copy.run())
    waiting = asyncio.create_task(copy.wait_for_sync())
    await troubled(copy)
    running.cancel()
    with pytest.raises(ClusterError, match="before its first list"):
        await waiting


@play
async def test_a_watch_that_lives_its_time_goes_on_without_a_list(cluster: Moody) -> None:
    brief = WatchTiming(
        idle_timeout=5, watch=(0.05, 0.1), healthy_after=0.01, initial_backoff=0.001, max_backoff=0.01
    )
    async with Informer(cluster, CONFIG_MAPS, "default", timing=brief) as copy:
        await copy.wait_for_sync()
        while cluster.asked.count("watch") < 4:
            await asyncio.sleep(0.01)
        await write(cluster, "a")
        await settled(cluster, copy)
    assert cluster.asked.count("stream") == 1


@play
async def test_selectors_choose_what_is_copied(cluster: Moody) -> None:
    for name in "ab":
        await cluster.create(PODS, pod(name), "default")
    async with Informer(cluster, PODS, fields="spec.nodeName=n1", timing=QUICK) as copy:
        await copy.wait_for_sync()
        assert not copy.objects
        async with aclosing(copy.changes()) as changes:
            await cluster.bind("default", "b", "", "n1")
            assert (await anext(changes)).key == ("default", "b")
            await cluster.delete(PODS, "b", "default", grace=0)
            assert (await anext(changes)).type == "deleted"


@pytest.mark.parametrize("seed", range(5))
def test_a_rough_life_ends_in_the_truth(seed: int) -> None:
    async def scenario() -> None:
        cluster, random, told = Moody(), Random(seed), Told()
        async with timeout(20), informer(cluster) as copy:
            copy.subscribe(told)
            for _ in range(150):
                await mishap(cluster, random)
                await asyncio.sleep(random.choice((0, 0, 0.001, 0.01)))
            cluster.refusals, cluster.silent = {}, False
            await settled(cluster, copy)
            assert told.state == dict(copy.objects)

    asyncio.run(scenario())


async def mishap(cluster: Moody, random: Random) -> None:
    """Let one thing happen to a cluster: mostly writes."""
    name = random.choice("abcdef")
    match random.randrange(12):
        case 0:
            cluster.disconnect()
        case 1:
            cluster.compact()
        case 2:
            cluster.silent = not cluster.silent
        case 3:
            asked = random.choice(("list", "stream", "watch"))
            cluster.refusals[asked] = random.choice((ClusterUnavailableError("away"), GoneError("gone")))
        case 4 | 5:
            cluster.refusals = {}
        case 6 | 7 | 8 if ("default", name) in {
            item.key for item in (await FakeCluster.list(cluster, CONFIG_MAPS, "default")).items
        }:
            await cluster.delete(CONFIG_MAPS, name, "default")
        case _:
            await write(cluster, name, str(random.random()))
