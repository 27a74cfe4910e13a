"""The operator on a real API server, as processes: a resource from its creation to its end."""

import asyncio
import re
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from fairlead.cluster.client import Client
from fairlead.cluster.kinds import CONFIG_MAPS, CRDS, EVENTS, LEASES, PODS
from fairlead.cluster.meta import Raw
from fairlead.errors import ClusterError
from fairlead.keys import FINALIZER
from fairlead.serve.operator.kinds import client_kind
from tests.cluster.chaos.wire import Wire
from tests.labs import LABEL, RealCluster
from tests.serve.operator.widgets import WIDGETS, definition, widget

_KIND = client_kind(WIDGETS)
_WRITES = re.compile(
    r'^fairlead_operator_requests_total\{resource="(?!leases)[^"]*",.*\} (.*)$', re.MULTILINE
)


@dataclass
class ReplicaProcess:
    """A replica, and its connections to the API server."""

    process: asyncio.subprocess.Process
    wire: Wire
    lines: list[str] = field(default_factory=list)
    reader: "asyncio.Task[None] | None" = None

    async def read(self) -> None:
        """Read what the replica prints."""
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            self.lines.append(line.decode().rstrip())

    async def requests(self) -> float:
        """Return the number of its requests other than those for the Lease, from its own page."""
        address = next(line.split()[-1] for line in self.lines if line.startswith("listening on"))
        page = await asyncio.to_thread(lambda: urllib.request.urlopen(address).read().decode())
        return sum(float(value) for value in _WRITES.findall(page))


class World:
    """A namespace, the replicas, and the widgets there."""

    def __init__(self, room: RealCluster, client: Client) -> None:
        self.room = room
        self.client = client
        self.namespace = room.namespace
        self.replicas: dict[str, ReplicaProcess] = {}

    @asynccontextmanager
    async def running(self, name: str) -> AsyncIterator[ReplicaProcess]:
        """Run a replica."""
        port = urlsplit(self.room.config.server).port
        assert port is not None
        async with Wire(port).open() as wire:
            argv = ["-m", "tests.serve.operator.replica", str(self.room.api.kubeconfig), name, self.namespace]
            process = await asyncio.create_subprocess_exec(
                sys.executable, *argv, str(wire.port), stdout=asyncio.subprocess.PIPE
            )
            replica = self.replicas[name] = ReplicaProcess(process, wire)
            reader = replica.reader = asyncio.create_task(replica.read())
            try:
                yield replica
            finally:
                with suppress(ProcessLookupError):
                    process.terminate()
                await process.wait()
                await reader

    async def widget(self, name: str) -> dict[str, Any]:
        """Return a widget."""
        return (await self.client.get(_KIND, name, self.namespace)).document()

    async def texts(self) -> dict[str, str]:
        """Return the texts of the ConfigMaps by their names."""
        listed = (await self.client.list(CONFIG_MAPS, self.namespace)).items
        return {one.metadata.name: one.data["text"] for one in listed}

    async def versions(self, prefix: str) -> dict[str, str]:
        """Return the versions of all objects whose name begins so."""
        found = {}
        for kind in (CONFIG_MAPS.raw(), PODS.raw(), EVENTS.raw(), _KIND):
            for one in (await self.client.list(kind, self.namespace)).items:
                if one.metadata.name.startswith(prefix):
                    found[f"{kind.plural}/{one.metadata.name}"] = one.metadata.resource_version
        return found

    async def edit(self, name: str, **spec: Any) -> None:
        """Change a widget's spec."""
        await self.client.patch(_KIND, name, {"spec": spec}, self.namespace)

    async def until(self, made: dict[str, str], status: dict[str, dict[str, Any]]) -> None:
        """Wait until these ConfigMaps exist and no others, and the widgets have this status."""
        async with asyncio.timeout(120):
            while await self.texts() != made or await self._status() != status:
                await asyncio.sleep(0.05)

    async def _status(self) -> dict[str, Any]:
        listed: tuple[Raw, ...] = (await self.client.list(_KIND, self.namespace)).items
        return {one.metadata.name: one.document().get("status") for one in listed}

    async def leader(self, is_new: Callable[[str], bool] = lambda _: True) -> str:
        """Return the replica that holds the Lease."""
        async with asyncio.timeout(120):
            while True:
                with suppress(ClusterError):
                    lease = await self.client.get(LEASES, "fairlead-operator", self.namespace)
                    if lease.spec.holder_identity and is_new(lease.spec.holder_identity):
                        return lease.spec.holder_identity
                await asyncio.sleep(0.05)


def test_a_resource_from_its_creation_to_its_end(real_cluster: RealCluster) -> None:
    async def scenario() -> None:
        async with real_cluster.connect() as client:
            await client.create(CRDS.raw(), definition({LABEL: real_cluster.namespace}))
            world = World(real_cluster, client)
            async with world.running("one"):
                await _create(world)
                await _make_and_change(world)
                await _repair(world)
                await _rest(world)
                async with world.running("two"):
                    await _lose_the_leader(world)
                    await _lose_the_server(world)
                    await _end(world)

    asyncio.run(scenario())


async def _create(world: World) -> None:
    """Create a widget as soon as the API server serves its kind."""
    async with asyncio.timeout(120):
        while True:
            with suppress(ClusterError):
                await world.client.create(
                    _KIND, widget("a", configs=3, pods=["x"], text="one"), world.namespace
                )
                return
            await asyncio.sleep(0.05)


async def _make_and_change(world: World) -> None:
    await world.until({f"a-{number}": "one" for number in range(3)}, {"a": {"made": 4, "text": "one"}})
    document = await world.widget("a")
    assert document["metadata"]["finalizers"] == [FINALIZER]
    (pod,) = (await world.client.list(PODS.raw(), world.namespace)).items
    (owner,) = pod.metadata.owner_references
    assert (owner.uid, owner.controller, owner.block_owner_deletion) == (
        document["metadata"]["uid"],
        True,
        True,
    )
    await world.edit("a", configs=2, text="two")
    await world.until({"a-0": "two", "a-1": "two"}, {"a": {"made": 3, "text": "two"}})


async def _repair(world: World) -> None:
    """Another client changes, deletes and takes what is made."""
    wanted, status = {"a-0": "two", "a-1": "two"}, {"a": {"made": 3, "text": "two"}}
    for patch in (
        {"data": {"text": "edited"}},
        {"metadata": {"labels": None}},
        {"metadata": {"ownerReferences": None}},
    ):
        before = await world.client.patch(CONFIG_MAPS.raw(), "a-0", patch, world.namespace)
        async with asyncio.timeout(120):
            while True:
                now = await world.client.get(CONFIG_MAPS.raw(), "a-0", world.namespace)
                repaired = now.metadata.labels and now.metadata.owner_references
                if repaired and now.metadata.resource_version != before.metadata.resource_version:
                    break
                await asyncio.sleep(0.05)
        await world.until(wanted, status)
    await world.client.delete(CONFIG_MAPS, "a-1", world.namespace)
    await world.until(wanted, status)
    await world.client.patch_status(_KIND, "a", {"status": {"made": 9, "strange": 1}}, world.namespace)
    await world.until(wanted, status)


async def _rest(world: World) -> None:
    """Passes over a resource that is as it must be send no request; those over another one are counted."""
    (one,) = world.replicas.values()
    versions = await world.versions("a")
    await _probe(world, "probe")
    costs = await _settled_requests(one)
    await _probe(world, "probe-2")
    costs = await _settled_requests(one) - costs
    for labels in ({"nothing": "more"}, None):
        await world.client.patch(_KIND, "a", {"metadata": {"labels": labels}}, world.namespace)
    before = await _settled_requests(one)
    await _probe(world, "probe-3")
    assert await _settled_requests(one) - before == costs
    assert _made(await world.versions("a")) == _made(versions)
    for name in ("probe", "probe-2", "probe-3"):
        await world.client.delete(_KIND, name, world.namespace)
    await world.until({"a-0": "two", "a-1": "two"}, {"a": {"made": 3, "text": "two"}})


async def _settled_requests(replica: ReplicaProcess) -> float:
    """Return the number of requests once the page, which is rendered twice a second, repeats it."""
    last = -1.0
    async with asyncio.timeout(60):
        while (now := await replica.requests()) != last:
            last = now
            await asyncio.sleep(0.6)
    return last


def _made(versions: dict[str, str]) -> dict[str, str]:
    """Return the versions of what a widget owns: the test itself changes the widget."""
    return {name: version for name, version in versions.items() if not name.startswith("widgets/")}


async def _probe(world: World, name: str) -> None:
    """Create a widget and wait for its status: every change before it was handled."""
    await world.client.create(_KIND, widget(name, configs=1, text="probe"), world.namespace)
    async with asyncio.timeout(120):
        while (await world.widget(name)).get("status") != {"made": 1, "text": "probe"}:
            await asyncio.sleep(0.05)


async def _lose_the_leader(world: World) -> None:
    """The leader is killed; the other replica goes on, and writes nothing that is as it must be."""
    async with asyncio.timeout(120):
        while "caches are synced; waiting to lead" not in world.replicas["two"].lines:
            await asyncio.sleep(0.05)
    leader = await world.leader()
    versions = await world.versions("a")
    world.replicas[leader].process.kill()
    await world.leader(lambda name: name != leader)
    await _probe(world, "after")
    assert {**await world.versions("a")} == {**versions, **await world.versions("after")}
    await world.client.delete(_KIND, "after", world.namespace)
    await world.edit("a", text="three")
    await world.until({"a-0": "three", "a-1": "three"}, {"a": {"made": 3, "text": "three"}})


async def _lose_the_server(world: World) -> None:
    """The API server is away for longer than the lease; what changed meanwhile is made when it is back."""
    leader = await world.leader()
    replica = world.replicas[leader]
    replica.wire.refusing = True
    replica.wire.cut(hard=True)
    async with asyncio.timeout(120):
        while not any(line.startswith("leads no more") for line in replica.lines):
            await asyncio.sleep(0.05)
    await world.edit("a", text="four", configs=1)
    replica.wire.refusing = False
    await world.until({"a-0": "four"}, {"a": {"made": 2, "text": "four"}})


async def _end(world: World) -> None:
    """A deleted widget takes everything with it, and a stopped operator releases the Lease."""
    await world.client.delete(_KIND, "a", world.namespace)
    await world.until({}, {})
    assert not (await world.client.list(PODS, world.namespace)).items
    leader = await world.leader()
    replica = world.replicas[leader]
    replica.process.terminate()
    assert await replica.process.wait() == 0
    assert replica.reader is not None
    await replica.reader
    assert replica.lines[-1] == "stopped; released the Lease"
    lease = await world.client.get(LEASES, "fairlead-operator", world.namespace)
    assert lease.spec.holder_identity == ""
