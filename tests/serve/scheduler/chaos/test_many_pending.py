"""A leader that is killed with very many pending pods is replaced soon: the next fences a few of them."""

import asyncio
import os
import signal
import time
from random import Random

import pytest

from fairlead.cluster.client import Client
from fairlead.cluster.kinds import NAMESPACES, PODS
from tests.cluster.chaos.api import ChaosApi
from tests.serve.scheduler.chaos.processes import run_replicas
from tests.serve.scheduler.world import World, bound

LONG = os.environ.get("FAIRLEAD_CHAOS") == "long"
CROWD = int(os.environ.get("FAIRLEAD_CHAOS_CROWD", "10000"))
LEASE = 5.0
PATIENCE = 300.0


@pytest.mark.skipif(not LONG, reason="some minutes: FAIRLEAD_CHAOS=long")
def test_a_killed_leader_is_replaced_within_seconds_with_very_many_pending_pods(chaos_api: ChaosApi) -> None:
    async def scenario() -> None:
        async with Client.connect(chaos_api.config) as client:
            await client.create(NAMESPACES, {"metadata": {"name": "crowd"}})
            async with (
                World(client, "crowd", nodes=1).open() as world,
                run_replicas(chaos_api, "crowd", Random(1), lease=LEASE) as replicas,
            ):
                for name in ("full-0", "full-1"):
                    await world.pod(name, mib=4096)
                await world.until(bound("full-0", "full-1"), PATIENCE)
                await create_crowd(world)
                leader = await replicas.leader(client)
                leader.send(signal.SIGKILL)
                began = time.monotonic()
                await world.delete("full-0")
                async with asyncio.timeout(PATIENCE):
                    while not await placed(world):
                        await asyncio.sleep(0.1)
                took = time.monotonic() - began
                print(f"\n{CROWD} pending: bound {took:.1f} s after the kill, with a lease of {LEASE:.0f} s")
                assert took - LEASE < 30.0

    asyncio.run(scenario())


async def create_crowd(world: World) -> None:
    """Create a crowd of pods that do not fit."""
    room = asyncio.Semaphore(32)

    async def create(number: int) -> None:
        async with room:
            await world.pod(f"waits-{number}", mib=1024)

    await asyncio.gather(*(create(number) for number in range(CROWD)))


async def placed(world: World) -> list[str]:
    """Return the names of the crowd's pods that are bound."""
    pods = await world.client.list(PODS, world.namespace, fields="spec.nodeName!=")
    return [pod.metadata.name for pod in pods.items if pod.metadata.name.startswith("waits-")]
