"""What can happen to replicas, to their ways, to their clocks and to the API server."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.cluster.chaos.api import ChaosApi
from tests.serve.scheduler.chaos.processes import ReplicaProcess, ReplicaProcesses
from tests.serve.scheduler.chaos.world import ChaosWorld
from tests.serve.scheduler.replica import LEASE


@dataclass(frozen=True)
class FaultContext:
    """Where it happens."""

    api: ChaosApi
    world: ChaosWorld
    replicas: ReplicaProcesses
    dice: Random

    async def victim(self) -> ReplicaProcess:
        """Return one of the replicas, mostly the one that leads."""
        if self.dice.random() < 0.7:
            return await self.replicas.leader(self.world.client)
        return self.dice.choice(self.replicas.processes)


Fault = Callable[[FaultContext], Awaitable[None]]
_LONG: Final = LEASE * 1.5
"""Seconds after which another leads."""
_THOUGHT: Final = 0.4
"""Seconds in which a replica hears of something and decides."""
_OVERTAKEN: Final = LEASE * 6
"""Seconds that another may take to lead and to decide, on a machine that does much else."""


async def pause(stage: FaultContext) -> None:
    """Stop a replica for longer than the lease; then it goes on with whatever it was about to do."""
    victim = await stage.victim()
    victim.send(signal.SIGSTOP)
    await asyncio.sleep(_LONG)
    victim.send(signal.SIGCONT)


async def hold(stage: FaultContext) -> None:
    """Keep back what a replica sends for longer than the lease: what it decides meanwhile arrives late."""
    victim = await stage.victim()
    victim.wire.hold()
    await stage.world.sweep(stage.dice)
    await asyncio.sleep(_LONG)
    victim.wire.release()


async def ambush(stage: FaultContext) -> None:
    """Let what a leader sends arrive when the next one has given it all to others."""
    leader = await stage.replicas.leader(stage.world.client)
    stopped = stage.dice.random() < 0.5
    async with stage.world.churn_lock:
        leader.wire.hold()
        await stage.world.sweep(stage.dice)
        await asyncio.sleep(_THOUGHT)
        if stopped:
            leader.send(signal.SIGSTOP)
        await _overtaken(stage, leader)
        leader.wire.release()
        leader.send(signal.SIGCONT)
        await asyncio.sleep(_THOUGHT)


async def dawdle(stage: FaultContext) -> None:
    """Let a leader stop when it has seen that it leads, and go on with what it meant when it does no more."""
    leader = await stage.replicas.leader(stage.world.client)
    await leader.ready.wait()
    async with stage.world.churn_lock:
        leader.send(signal.SIGHUP)
        await stage.world.sweep(stage.dice)
        await asyncio.sleep(_THOUGHT)
        await _overtaken(stage, leader)
        leader.send(signal.SIGHUP)
        await asyncio.sleep(_THOUGHT)


async def _overtaken(stage: FaultContext, leader: ReplicaProcess) -> None:
    """Wait until another leads and has placed a crowd, or as much of it as there is room for."""
    crowd = await stage.world.create_crowd()
    before = -1
    with suppress(TimeoutError):
        async with asyncio.timeout(_OVERTAKEN):
            while await stage.replicas.leader(stage.world.client) is leader:
                await asyncio.sleep(0.1)
            while True:
                pods = await stage.world.pods()
                placed = sum(bool(pod.spec.node_name) for pod in pods if pod.metadata.name in crowd)
                if placed and placed == before:
                    break
                before = placed
                await asyncio.sleep(_THOUGHT)
    stage.world.to_delete += crowd


async def kill(stage: FaultContext) -> None:
    """Kill a replica in the middle of whatever it does."""
    await stage.replicas.replace(await stage.victim(), signal.SIGKILL)


async def term(stage: FaultContext) -> None:
    """Tell a replica to end."""
    await stage.replicas.replace(await stage.victim(), signal.SIGTERM)


async def gap(stage: FaultContext) -> None:
    """Cut a replica's watches, let pods go meanwhile, and have etcd forget: it must list anew."""
    victim = await stage.victim()
    victim.wire.refusing = True
    victim.wire.cut(hard=True)
    await stage.world.sweep(stage.dice)
    await asyncio.sleep(stage.dice.uniform(0.1, _LONG))
    stage.api.compact()
    victim.wire.refusing = False


async def cut(stage: FaultContext) -> None:
    """Cut a replica's connections within an event or an answer."""
    for _ in range(3):
        victim = await stage.victim()
        victim.wire.cut(after=stage.dice.randrange(1, 4000), hard=stage.dice.random() < 0.5)
        await asyncio.sleep(0.1)


async def restart(stage: FaultContext) -> None:
    """Kill the API server, now and then etcd too, and start them anew."""
    stage.api.kill()
    if stage.dice.random() < 0.3:
        stage.api.kill("etcd")
    await stage.api.restart()


async def shrink(stage: FaultContext) -> None:
    """Have a node's slice lose a device for a while: its labels and its slice disagree."""
    await stage.world.shrink(stage.dice.uniform(0.5, _LONG))


async def jump(stage: FaultContext) -> None:
    """Set the clocks of all replicas to other times."""
    for player in stage.replicas.processes:
        if player.ready.is_set():
            player.send(signal.SIGUSR1)


FAULTS: Final[Mapping[str, Fault]] = {
    "ambush": ambush,
    "dawdle": dawdle,
    "hold": hold,
    "pause": pause,
    "gap": gap,
    "restart": restart,
    "kill": kill,
    "shrink": shrink,
    "jump": jump,
    "cut": cut,
    "term": term,
}
