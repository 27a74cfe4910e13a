"""The informer on a fake cluster that fails in various ways."""

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


class UnreliableCluster(FakeCluster):
    """A fake cluster that refuses requests or stops sending events, as a test demands."""

    def __init__(self) -> None:
        super().__init__(bookmark_every=0.1)
        self.requests: list[str] = []
        self.refusals: dict[str, FairleadError] = {}
        """The errors of list, stream and watch requests."""
        self.silent = False

    async def list(self, kind: Kind[T], *args: Any, **query: Any) -> Listing[T]:
        self._count("list")
        return await super().list(kind, *args, **query)

    async def watch(self, kind: Kind[T], *args: Any, **query: Any) -> AsyncGenerator[WatchEvent[T], None]:
        self._count("stream" if query.get("send_initial_events") else "watch")
        async with aclosing(super().watch(kind, *args, **query)) as events:
            async for event in events:
                if self.silent:
                    await asyncio.sleep(query["idle"])
                    raise ClusterUnavailableError("memory did not answer in time") from TimeoutError()
                yield event

    def _count(self, request: str) -> None:
        self.requests.append(request)
        if request in self.refusals:
            raise self.refusals[request]


def play(scenario: Callable[[UnreliableCluster], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Make a test of a scenario on a cluster of its own."""

    def test() -> None:
        async def limited() -> None:
            async with timeout(300):
                await scenario(UnreliableCluster())

        asyncio.run(limited())

    test.__name__ = test.__qualname__ = scenario.__name__
    return test


def informer(cluster: FakeCluster, **more: Any) -> Informer[ConfigMap]:
    return Informer(cluster, CONFIG_MAPS, "default", timing=QUICK, random=Random(1), **more)


async def write(cluster: FakeCluster, name: str, value: str = "") -> None:
    await cluster.patch(CONFIG_MAPS, name, config_map(name, {"k": value}), "default", patch_type="apply")


async def wait_until_equal(cluster: FakeCluster, copy: Informer[ConfigMap]) -> None:
    """Wait until the copy equals the cluster's state."""
    listing = await FakeCluster.list(cluster, CONFIG_MAPS, "default")
    objects = {item.key: item for item in listing.items}
    while copy.objects != objects:
        await asyncio.sleep(0.005)


async def wait_for_error(copy: Informer[ConfigMap]) -> None:
    """Wait until the informer has an error."""
    while copy.last_error is None:
        await asyncio.sleep(0.005)


class ChangeLog:
    """A handler that records its changes, and the state that results from them."""

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
async def test_existing_objects_and_later_changes_are_reported_once(cluster: UnreliableCluster) -> None:
    await write(cluster, "a")
    log = ChangeLog()
    copy = informer(cluster)
    copy.subscribe(log)
    assert not copy.synced
    assert copy.age == float("inf")
    async with copy:
        await copy.wait_for_sync()
        await write(cluster, "b")
        await write(cluster, "a", "new")
        await cluster.delete(CONFIG_MAPS, "b", "default")
        await wait_until_equal(cluster, copy)
    assert log.changes == [("added", "a"), ("added", "b"), ("modified", "a"), ("deleted", "b")]
    assert cluster.requests == ["stream"]


@play
async def test_a_late_subscriber_gets_the_existing_objects(cluster: UnreliableCluster) -> None:
    await write(cluster, "a")
    async with informer(cluster) as copy:
        await copy.wait_for_sync()
        log = ChangeLog()
        copy.subscribe(log)
        assert log.changes == [("added", "a")]
        async with aclosing(copy.changes()) as changes:
            assert (await anext(changes)).key == ("default", "a")
            await write(cluster, "b")
            assert (await anext(changes)).type == "added"
            for value in "123":
                await write(cluster, "b", value)
            await wait_until_equal(cluster, copy)
            change = await anext(changes)
            assert (change.type, change.object.data) == ("modified", {"k": "3"}), (
                "the latest state, not each one"
            )


@play
async def test_a_disconnected_watch_resumes_without_a_list(cluster: UnreliableCluster) -> None:
    log = ChangeLog()
    async with informer(cluster) as copy:
        copy.subscribe(log)
        await copy.wait_for_sync()
        for n in range(5):
            await write(cluster, f"a{n}")
            await wait_until_equal(cluster, copy)
            cluster.disconnect()
            await write(cluster, f"b{n}")
            await wait_until_equal(cluster, copy)
    assert cluster.requests.count("stream") == 1
    assert "list" not in cluster.requests
    assert len(log.changes) == 10


@play
async def test_an_object_deleted_during_an_outage_is_reported_as_deleted(cluster: UnreliableCluster) -> None:
    log = ChangeLog()
    for name in "abc":
        await write(cluster, name)
    async with informer(cluster) as copy:
        copy.subscribe(log)
        await copy.wait_for_sync()
        cluster.refusals = {"watch": GoneError("gone"), "stream": ClusterUnavailableError("unavailable")}
        cluster.disconnect()
        await wait_for_error(copy)
        await cluster.delete(CONFIG_MAPS, "a", "default")
        await cluster.delete(CONFIG_MAPS, "b", "default")
        await write(cluster, "b", "another of that name")
        await write(cluster, "c", "changed")
        cluster.compact()
        cluster.refusals = {}
        await wait_until_equal(cluster, copy)
    after = log.changes[3:]
    assert sorted(after) == [("added", "b"), ("deleted", "a"), ("deleted", "b"), ("modified", "c")]
    assert after.index(("deleted", "b")) < after.index(("added", "b"))


@play
async def test_compaction_leads_to_a_list_and_a_difference(cluster: UnreliableCluster) -> None:
    await write(cluster, "a")
    async with informer(cluster) as copy:
        await copy.wait_for_sync()
        cluster.refusals["watch"] = ClusterUnavailableError("unavailable")
        cluster.disconnect()
        await wait_for_error(copy)
        await cluster.delete(CONFIG_MAPS, "a", "default")
        cluster.compact()
        cluster.refusals = {}
        await wait_until_equal(cluster, copy)
        assert cluster.requests.count("stream") == 2


@play
async def test_an_idle_timeout_leads_to_a_list(cluster: UnreliableCluster) -> None:
    async with informer(cluster) as copy:
        await copy.wait_for_sync()
        cluster.silent = True
        await write(cluster, "a")
        await wait_for_error(copy)
        assert copy.age >= 0.9 * QUICK.idle_timeout
        assert copy.synced
        cluster.silent = False
        await wait_until_equal(cluster, copy)
        assert copy.last_error is None
        assert copy.age < QUICK.idle_timeout


@play
async def test_a_server_without_streamed_lists_is_listed(cluster: UnreliableCluster) -> None:
    cluster.refusals["stream"] = InvalidError("sendInitialEvents is forbidden")
    await write(cluster, "a")
    async with informer(cluster) as copy:
        await copy.wait_for_sync()
        await write(cluster, "b")
        await wait_until_equal(cluster, copy)
    assert cluster.requests[:3] == ["stream", "list", "watch"]


@pytest.mark.parametrize("error", [AccessError("you may not"), MissingApiError("no such kind")])
def test_an_error_that_a_person_must_resolve_is_raised_at_the_start(error: FairleadError) -> None:
    async def scenario() -> None:
        cluster = UnreliableCluster()
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
async def test_a_later_error_that_a_person_must_resolve_is_recorded_and_retried(
    cluster: UnreliableCluster,
) -> None:
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
        await wait_until_equal(cluster, copy)


@play
async def test_an_exception_of_a_handler_ends_the_informer(cluster: UnreliableCluster) -> None:
    def fail(change: ObjectChange[ConfigMap]) -> None:
        raise RuntimeError("a bug")

    await write(cluster, "a")
    copy = informer(cluster)
    copy.subscribe(fail)
    with pytest.raises(RuntimeError, match="a bug"):
        await copy.run()


@play
async def test_a_stopped_informer_can_run_again(cluster: UnreliableCluster) -> None:
    log = ChangeLog()
    copy = informer(cluster)
    copy.subscribe(log)
    for name in "ab":
        running = asyncio.create_task(copy.run())
        await write(cluster, name)
        await copy.wait_for_sync()
        await wait_until_equal(cluster, copy)
        running.cancel()
        await asyncio.wait([running])
    assert log.changes == [("added", "a"), ("added", "b")]


@play
async def test_waiting_for_a_stopped_informer_raises(cluster: UnreliableCluster) -> None:
    cluster.refusals = dict.fromkeys(("stream", "list"), ClusterUnavailableError("unavailable"))
    copy = informer(cluster)
    running = asyncio.create_task(copy.run())
    waiting = asyncio.create_task(copy.wait_for_sync())
    await wait_for_error(copy)
    running.cancel()
    with pytest.raises(ClusterError, match="before its first list"):
        await waiting


@play
async def test_a_watch_that_reaches_its_timeout_resumes_without_a_list(cluster: UnreliableCluster) -> None:
    short = WatchTiming(
        idle_timeout=5, watch=(0.05, 0.1), healthy_after=0.01, initial_backoff=0.001, max_backoff=0.01
    )
    async with Informer(cluster, CONFIG_MAPS, "default", timing=short) as copy:
        await copy.wait_for_sync()
        while cluster.requests.count("watch") < 4:
            await asyncio.sleep(0.01)
        await write(cluster, "a")
        await wait_until_equal(cluster, copy)
    assert cluster.requests.count("stream") == 1


@play
async def test_selectors_limit_the_copy(cluster: UnreliableCluster) -> None:
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
def test_the_copy_is_correct_after_random_mishaps(seed: int) -> None:
    async def scenario() -> None:
        cluster, random, log = UnreliableCluster(), Random(seed), ChangeLog()
        async with timeout(300), informer(cluster) as copy:
            copy.subscribe(log)
            for _ in range(150):
                await mishap(cluster, random)
                await asyncio.sleep(random.choice((0, 0, 0.001, 0.01)))
            cluster.refusals, cluster.silent = {}, False
            await wait_until_equal(cluster, copy)
            assert log.state == dict(copy.objects)

    asyncio.run(scenario())


async def mishap(cluster: UnreliableCluster, random: Random) -> None:
    """Do one thing to a cluster, mostly a write."""
    name = random.choice("abcdef")
    match random.randrange(12):
        case 0:
            cluster.disconnect()
        case 1:
            cluster.compact()
        case 2:
            cluster.silent = not cluster.silent
        case 3:
            request = random.choice(("list", "stream", "watch"))
            cluster.refusals[request] = random.choice(
                (ClusterUnavailableError("unavailable"), GoneError("gone"))
            )
        case 4 | 5:
            cluster.refusals = {}
        case 6 | 7 | 8 if ("default", name) in {
            item.key for item in (await FakeCluster.list(cluster, CONFIG_MAPS, "default")).items
        }:
            await cluster.delete(CONFIG_MAPS, name, "default")
        case _:
            await write(cluster, name, str(random.random()))
