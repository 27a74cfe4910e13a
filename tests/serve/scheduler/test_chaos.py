"""Replicas that are killed, stopped and woken while pods come and go: nothing is ever given away twice.

`make test` plays a few rounds; FAIRLEAD_CHAOS=long plays fifty, FAIRLEAD_CHAOS_SEED=N others.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from random import Random

from tests.labs import RealCluster
from tests.serve.scheduler.world import World, bound, opened

ROUNDS = 50 if os.environ.get("FAIRLEAD_CHAOS") == "long" else 4
SEED = int(os.environ.get("FAIRLEAD_CHAOS_SEED", "1"))
MISHAPS = ("pause", "kill", "pause", "term")


@dataclass
class Troupe:
    """Replicas, each a process, and who of them is stopped."""

    kubeconfig: str
    namespace: str
    processes: list[asyncio.subprocess.Process] = field(default_factory=list)
    numbers: "count[int]" = field(default_factory=count)

    async def add(self) -> None:
        """Start another replica."""
        module = ("-m", "tests.serve.scheduler.replica")
        me = f"replica-{next(self.numbers)}"
        self.processes.append(
            await asyncio.create_subprocess_exec(sys.executable, *module, self.kubeconfig, me, self.namespace)
        )

    async def suffer(self, mishap: str, dice: Random) -> None:
        """Let something happen to one of them; the paused one goes on with whatever it was about to do."""
        victim = dice.choice(self.processes)
        if mishap == "pause":
            victim.send_signal(signal.SIGSTOP)
            await asyncio.sleep(5.0)  # longer than the lease lasts: another leads by now
            victim.send_signal(signal.SIGCONT)
            return
        victim.send_signal(signal.SIGKILL if mishap == "kill" else signal.SIGTERM)
        await victim.wait()
        self.processes.remove(victim)
        await self.add()

    async def end(self) -> None:
        """Kill whoever is left."""
        for process in self.processes:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


@asynccontextmanager
async def performing(room: RealCluster) -> AsyncIterator[Troupe]:
    troupe = Troupe(str(room.api.kubeconfig), room.namespace)
    try:
        for _ in range(2):
            await troupe.add()
        yield troupe
    finally:
        await troupe.end()


async def bustle(world: World, dice: Random) -> None:
    """Let pods come and go; they ask for more than there is."""
    alive: list[str] = []
    for number in count():
        name = f"pod-{number}"
        await world.pod(name, mib=dice.choice((512, 1024, 2048, 3072)))
        alive.append(name)
        if len(alive) > 14:
            await world.delete(alive.pop(dice.randrange(len(alive))))
        await asyncio.sleep(0.1)


async def watchful(world: World) -> None:
    """Look at the API, again and again."""
    while True:
        await world.held()
        await asyncio.sleep(0.05)


def test_nothing_is_given_away_twice_whoever_is_killed_or_stopped(real_cluster: RealCluster) -> None:
    async def scenario() -> None:
        dice = Random(SEED)
        async with opened(real_cluster, 2) as world, performing(real_cluster) as troupe:
            await world.pod("first", mib=512)
            await world.until(lambda pods: bool(pods) and bound()(pods))
            async with asyncio.TaskGroup() as group:
                others = [group.create_task(bustle(world, dice)), group.create_task(watchful(world))]
                for number in range(ROUNDS):
                    await asyncio.sleep(dice.uniform(0.2, 2.0))
                    await troupe.suffer(MISHAPS[number % len(MISHAPS)], dice)
                for task in others:
                    task.cancel()
            await end_well(world)

    asyncio.run(scenario())


async def end_well(world: World) -> None:
    """See that all who fit are placed in the end, and that nothing is left when all are gone."""
    for pod in await world.pods():
        await world.delete(pod.metadata.name)
    for number in range(4):
        await world.pod(f"last-{number}", mib=4096)
    await world.until(lambda pods: len(pods) == 4 and bound()(pods))
    for number in range(4):
        await world.delete(f"last-{number}")
    assert await world.held() == {}
