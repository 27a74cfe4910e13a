"""A busy namespace, informers that follow it over different connections, and their invariants."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from fairlead.cluster.client import Client
from fairlead.cluster.http.transport import Transport
from fairlead.cluster.kinds import CONFIG_MAPS, EVENTS, NAMESPACES, Kind
from fairlead.cluster.meta import Listing, Object, T, WatchEvent
from fairlead.cluster.watch.changes import Key, ObjectChange
from fairlead.cluster.watch.informer import Informer
from fairlead.cluster.watch.reflector import WatchTiming
from fairlead.errors import AlreadyExistsError, ClusterError, NotFoundError
from tests.cluster.chaos.api import ChaosApi
from tests.cluster.chaos.wire import Wire

NAMESPACE = "chaos"
HALF = "half=yes"
NAMES = [f"map-{n:02}" for n in range(40)]
LARGE = 120_000
"""Bytes of a large object: spread over many TLS records, so that a cut can fall into an event."""
Sights = dict[Key, tuple[str, str]]


class Spy(Client):
    """A client that counts its requests and its errors."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self.count: Counter[str] = Counter()

    async def list(self, kind: Kind[T], *args: Any, **query: Any) -> Listing[T]:
        self.count["list"] += 1
        return await super().list(kind, *args, **query)

    async def watch(self, kind: Kind[T], *args: Any, **query: Any) -> AsyncGenerator[WatchEvent[T], None]:
        self.count["stream" if query.get("send_initial_events") else "watch"] += 1
        try:
            async with aclosing(super().watch(kind, *args, **query)) as events:
                async for event in events:
                    yield event
        except ClusterError as error:
            self.count[type(error).__name__] += 1
            raise


class ChangeLog:
    """The state that results from the changes alone; each must follow from the one before."""

    def __init__(self) -> None:
        self.state: Sights = {}
        self.changes = 0

    def __call__(self, change: ObjectChange[Any]) -> None:
        self.changes += 1
        assert self.state.get(change.key) == (change.old and sight(change.old)), "old is the last state"
        assert change.old is None or change.new is None or sight(change.old) != sight(change.new), (
            "reported twice"
        )
        if change.new is None:
            del self.state[change.key]
        else:
            self.state[change.key] = sight(change.new)


@dataclass(frozen=True)
class Follower:
    """An informer, the changes that it reported, and the list that it must agree with."""

    name: str
    informer: Informer[Any]
    log: ChangeLog
    list_objects: Callable[[], Any]

    async def agree(self, until: float) -> None:
        """Wait until the copy, and the state of the reported changes, equal a fresh list."""
        listed: Sights = {item.key: sight(item) for item in (await self.list_objects()).items}
        while sights(self.informer) != listed:
            assert time.monotonic() < until, f"{self.name}: {difference(sights(self.informer), listed)}"
            await asyncio.sleep(0.01)
        assert self.log.state == listed, f"{self.name} reported: {difference(self.log.state, listed)}"


def sight(item: Object) -> tuple[str, str]:
    """Return the uid and the resource version of an object."""
    return item.metadata.uid, item.metadata.resource_version


def sights(informer: Informer[Any]) -> Sights:
    return {key: sight(item) for key, item in informer.objects.items()}


def difference(state: Sights, listed: Sights) -> str:
    keys = sorted(key for key in state.keys() | listed.keys() if state.get(key) != listed.get(key))
    return "; ".join(f"{key[1]}: {state.get(key)} is {listed.get(key)}" for key in keys[:5])


class World:
    """The namespace and the informers that follow it."""

    def __init__(self, api: ChaosApi, wire: Wire, client: Client, spy: Spy, random: Random) -> None:
        self.api = api
        self.wire = wire
        self.spy = spy
        self.random = random
        self._client = client
        self.followers: list[Follower] = []
        self.writes = 0

    async def write(self, count: int, large: float = 0.1) -> None:
        """Change objects at random over a direct connection; `large` is the share of large ones."""
        for _ in range(count):
            with suppress(NotFoundError, AlreadyExistsError):
                await self._write_one(LARGE if self.random.random() < large else 20)
                self.writes += 1

    async def agree(self, limit: float = 60.0) -> float:
        """Wait until every follower agrees with a fresh list; return how long it took."""
        began = time.monotonic()
        for follower in self.followers:
            await follower.agree(began + limit)
        return time.monotonic() - began

    async def _write_one(self, size: int) -> None:
        name, dice = self.random.choice(NAMES), self.random.random()
        if dice < 0.25:
            await self._client.delete(CONFIG_MAPS, name, NAMESPACE)
        if dice < 0.1 or dice > 0.25:
            data = {"value": f"{self.random.random()}", "ballast": "x" * size}
            labels = {"half": self.random.choice(("yes", "no"))}
            body = {"metadata": {"name": name, "labels": labels}, "data": data}
            await self._client.patch(CONFIG_MAPS, name, body, NAMESPACE, patch_type="apply", force=True)
        if dice > 0.7:
            await self._client.create(EVENTS, event(name), NAMESPACE)

    async def list_uncounted(self, kind: Kind[T], **query: Any) -> Listing[T]:
        """List objects without counting the request."""
        return await self._client.list(kind, NAMESPACE, **query)


def event(name: str) -> dict[str, Any]:
    """Return an event on a config map."""
    about = {"kind": "ConfigMap", "name": name, "namespace": NAMESPACE}
    return {"metadata": {"generateName": "report-"}, "involvedObject": about, "reason": "Test"}


@asynccontextmanager
async def busy_world(api: ChaosApi, timing: WatchTiming, seed: int) -> AsyncIterator[World]:
    """Open a namespace with objects and followers: over the wire, direct, and past the server's cache."""
    async with AsyncExitStack() as stack:
        wire = await stack.enter_async_context(Wire(api.port).open())
        client = await stack.enter_async_context(Client.connect(api.config))
        far = replace(api.config, server=f"https://127.0.0.1:{wire.port}")
        spy = await stack.enter_async_context(Spy.connect(far))
        assert isinstance(spy, Spy)
        world = World(api, wire, client, spy, Random(seed))
        with suppress(AlreadyExistsError):
            await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        await world.write(30)
        for name, cluster, kind, labels in (
            ("maps over the wire", spy, CONFIG_MAPS, None),
            ("half of the maps, direct", client, CONFIG_MAPS, HALF),
            ("events over the wire", spy, EVENTS, None),
        ):
            follower = Follower(
                name,
                Informer(cluster, kind, NAMESPACE, labels=labels, timing=timing, random=Random(seed)),
                ChangeLog(),
                _lister(world, kind, labels),
            )
            follower.informer.subscribe(follower.log)
            world.followers.append(follower)
            await stack.enter_async_context(follower.informer)
        yield world


def _lister(world: World, kind: Kind[Any], labels: str | None) -> Callable[[], Any]:
    return lambda: world.list_uncounted(kind, labels=labels)
