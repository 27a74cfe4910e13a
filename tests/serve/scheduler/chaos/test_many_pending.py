"""A leader that is killed where very many wait is replaced soon: the next looks at a few of them alone."""

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
def test_a_killed_leader_is_replaced_within_seconds_though_very_many_wait(chaos_api: ChaosApi) -> None:
    async def scenario() -> None:
        async with Client.connect(chaos_api.config) as client:
            await client.create(NAMESPACES, {"metadata": {"name": "crowd"}})
            async with (
                World(client, "crowd", nodes=1).open() as world,
                run_replicas(chaos_api, "crowd", Random(1), lease=LEASE) as troupe,
            ):
                for name in ("full-0", "full-1"):
                    await world.pod(name, mib=4096)
                await world.until(bound("full-0", "full-1"), PATIENCE)
                await gather(world)
                leader = await troupe.leader(client)
                leader.send(signal.SIGKILL)
                began = time.monotonic()
                await world.delete("full-0")
                async with asyncio.timeout(PATIENCE):
                    while not await placed(world):
                        await asyncio.sleep(0.1)
                took = time.monotonic() - began
                print(f"\n{CROWD} wait: bound {took:.1f} s after the kill, of which the lease is {LEASE:.0f}")
                assert took - LEASE < 30.0

    asyncio.run(scenario())


async def gather(world: World) -> None:
    """Let a crowd come that finds no room."""
    room = asyncio.Semaphore(32)

    async def come(number: int) -> None:
        async with room:
            await world.pod(f"waits-{number}", mib=1024)

    await asyncio.gather(*(come(number) for number in range(CROWD)))


async def placed(world: World) -> list[str]:
    """Return those of the crowd who have a place."""
    pods = await world.client.list(PODS, world.namespace, fields="spec.nodeName!=")
    return [pod.metadata.name for pod in pods.items if pod.metadata.name.startswith("waits-")]
