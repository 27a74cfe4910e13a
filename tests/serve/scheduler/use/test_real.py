"""On a real API server: pods share closer than their requests allow, one grows, and sizes are kept."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from fairlead.cache.types import DISRUPTION, LivePod
from fairlead.catalog import Catalog
from fairlead.cluster.kinds import CONFIG_MAPS, EVENTS, NODES
from fairlead.keys import BY_USE
from fairlead.serve.scheduler.driver import Scheduler
from fairlead.settings.scheduler import FOOTPRINTS_NAME
from fairlead.units import Bytes
from fairlead.use import DeviceKey, PodDeviceKey, UseReport, UseSample
from tests.labs import RealCluster
from tests.serve.scheduler.replica import settings
from tests.serve.scheduler.world import GIB, World, bound, open_world

DEVICE = "gpu-0"


@dataclass
class ScriptedUse:
    """A source that reports what the test says; a pod that is absent uses nothing."""

    node: str
    gib: dict[str, float] = field(default_factory=dict)
    """By the uid of a pod."""

    reads: int = 0

    async def wait(self, reads: int) -> None:
        """Wait until it was read some times more."""
        until = self.reads + reads
        async with asyncio.timeout(60):
            while self.reads < until:
                await asyncio.sleep(0.05)

    async def read(self, now: float) -> UseReport:
        self.reads += 1
        key = DeviceKey(self.node, DEVICE)
        pods = {
            PodDeviceKey(uid, *key): UseSample(now, Bytes(round(gib * GIB)), 0.1)
            for uid, gib in self.gib.items()
        }
        total = Bytes(round(sum(self.gib.values()) * GIB))
        return UseReport(now, "simulation", {key: UseSample(now, total, 0.1)}, pods)

    async def backfill(self, now: float, window: float) -> Sequence[UseReport]:
        return ()


@asynccontextmanager
async def running(world: World, catalog: Catalog, use: ScriptedUse, me: str) -> AsyncIterator[Scheduler]:
    """Run a replica by fairlead-safe beside the test."""
    stop = asyncio.Event()
    long = settings(me, world.namespace, lease=60)  # a slow machine costs no leadership
    changed = replace(long, policy="fairlead-safe", usage=True, usage_period=0.2)
    scheduler = Scheduler(world.client, catalog, changed, print, usage=use)
    task = asyncio.create_task(scheduler.run(stop))
    try:
        yield scheduler
    finally:
        stop.set()
        await task


async def sizes(world: World) -> dict[str, str]:
    """Return what claims consume, by the name of their pod."""
    names = {pod.metadata.uid: pod.metadata.name for pod in await world.pods()}
    held = [(claim.users, claim.results) for claim in await world.claims()]
    return {
        names[users[0]]: str(results[0].consumed_capacity["memory"])
        for users, results in held
        if results and users[0] in names
    }


def uid(pods: Sequence[LivePod], name: str) -> str:
    return next(pod.metadata.uid for pod in pods if pod.metadata.name == name)


def test_pods_share_by_use_one_grows_and_sizes_outlive_the_program(
    real_cluster: RealCluster, catalog: Catalog
) -> None:
    async def scenario() -> None:
        async with open_world(real_cluster, 1, devices=1) as world:
            note = {"metadata": {"annotations": {BY_USE: "1"}}}
            await world.client.patch(NODES, world.nodes[0], note)
            use = ScriptedUse(world.nodes[0])
            async with running(world, catalog, use, "one"):
                await _learn(world, use)
                await _share(world, use)
                await _grow(world, use)
            stored = await world.client.get(CONFIG_MAPS, FOOTPRINTS_NAME, world.namespace)
            assert "image:x:latest" in stored.data["footprints"]
            use.gib.clear()
            for name in ("a", "b", "c"):
                await world.delete(name)
            async with running(world, catalog, use, "two"):
                await world.pod("next", mib=3072)
                await world.until(bound("next"))
                size = (await sizes(world))["next"]
                assert size.endswith("Mi")  # not the 3Gi of its request

    asyncio.run(scenario())


async def _learn(world: World, use: ScriptedUse) -> None:
    """Let two pods run by their requests, one after the other, and end."""
    for name in ("first", "second"):
        await world.pod(name, mib=3072)
        pods = await world.until(bound(name))
        assert await sizes(world) == {name: "3Gi"}
        use.gib[uid(pods, name)] = 0.7
        await use.wait(9)  # the API server writes in whole seconds when a pod was bound
        use.gib.clear()
        await world.delete(name)
        await use.wait(2)


async def _share(world: World, use: ScriptedUse) -> None:
    """Place three pods where requests allow one."""
    for name in ("a", "b", "c"):
        await world.pod(name, mib=3072, priority=0)
    pods = await world.until(lambda pods: len(pods) == 3 and bound()(pods))
    held = [int(size.removesuffix("Mi")) for size in (await sizes(world)).values()]
    assert len(held) == 3
    assert 0.7 * 1024 < max(held) < 1.05 * 1024
    use.gib |= {uid(pods, name): 0.7 for name in ("a", "b", "c")}


async def _grow(world: World, use: ScriptedUse) -> None:
    """Let one pod grow: one of the three is evicted before the device is full."""
    pods = await world.pods()
    for held in (1.6, 2.0, 2.3, 2.49):
        if any(pod.metadata.deletion_timestamp for pod in await world.pods()):
            break
        use.gib[uid(pods, "b")] = held
        assert sum(use.gib.values()) < 4
        await use.wait(2)
    pods = await world.until(lambda pods: any(pod.metadata.deletion_timestamp for pod in pods), 60)
    (gone,) = [pod for pod in pods if pod.metadata.deletion_timestamp]
    assert gone.condition(DISRUPTION).type == DISRUPTION
    async with asyncio.timeout(30):
        while not (messages := await _messages(world)):
            await asyncio.sleep(0.1)
    assert f"{DEVICE} of {world.nodes[0]}" in messages[0]


async def _messages(world: World) -> list[str]:
    events = (await world.client.list(EVENTS, world.namespace)).items
    return [event.message for event in events if event.reason == "AcceleratorMemoryLow"]
