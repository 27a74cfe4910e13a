"""Faults of replicas, of their connections, of their clocks and of the API server."""

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
    """The world and the replicas that a fault happens to."""

    api: ChaosApi
    world: ChaosWorld
    replicas: ReplicaProcesses
    dice: Random

    async def victim(self) -> ReplicaProcess:
        """Return one of the replicas, mostly the leader."""
        if self.dice.random() < 0.7:
            return await self.replicas.leader(self.world.client)
        return self.dice.choice(self.replicas.processes)


Fault = Callable[[FaultContext], Awaitable[None]]
_LONG: Final = LEASE * 1.5
"""Seconds after which another replica leads."""
_THOUGHT: Final = 0.4
"""Seconds in which a replica observes an event and decides."""
_OVERTAKEN: Final = LEASE * 6
"""Seconds that another replica may take to lead and to decide, on a busy machine."""


async def pause(context: FaultContext) -> None:
    """Stop a replica for longer than the lease; then it resumes where it stopped."""
    victim = await context.victim()
    victim.send(signal.SIGSTOP)
    await asyncio.sleep(_LONG)
    victim.send(signal.SIGCONT)


async def hold(context: FaultContext) -> None:
    """Delay what a replica sends for longer than the lease: what it decides meanwhile arrives late."""
    victim = await context.victim()
    victim.wire.hold()
    await context.world.sweep(context.dice)
    await asyncio.sleep(_LONG)
    victim.wire.release()


async def ambush(context: FaultContext) -> None:
    """Deliver what a leader sends when the next leader has allocated the same devices to others."""
    leader = await context.replicas.leader(context.world.client)
    stopped = context.dice.random() < 0.5
    async with context.world.churn_lock:
        leader.wire.hold()
        await context.world.sweep(context.dice)
        await asyncio.sleep(_THOUGHT)
        if stopped:
            leader.send(signal.SIGSTOP)
        await _overtaken(context, leader)
        leader.wire.release()
        leader.send(signal.SIGCONT)
        await asyncio.sleep(_THOUGHT)


async def dawdle(context: FaultContext) -> None:
    """Stop a leader between checking that it leads and sending; resume it when another leads."""
    leader = await context.replicas.leader(context.world.client)
    await leader.ready.wait()
    async with context.world.churn_lock:
        leader.send(signal.SIGHUP)
        await context.world.sweep(context.dice)
        await asyncio.sleep(_THOUGHT)
        await _overtaken(context, leader)
        leader.send(signal.SIGHUP)
        await asyncio.sleep(_THOUGHT)


async def _overtaken(context: FaultContext, leader: ReplicaProcess) -> None:
    """Wait until another replica leads and has placed a crowd of pods, or as many as fit."""
    crowd = await context.world.create_crowd()
    before = -1
    with suppress(TimeoutError):
        async with asyncio.timeout(_OVERTAKEN):
            while await context.replicas.leader(context.world.client) is leader:
                await asyncio.sleep(0.1)
            while True:
                pods = await context.world.pods()
                placed = sum(bool(pod.spec.node_name) for pod in pods if pod.metadata.name in crowd)
                if placed and placed == before:
                    break
                before = placed
                await asyncio.sleep(_THOUGHT)
    context.world.to_delete += crowd


async def kill(context: FaultContext) -> None:
    """Kill a replica at any point."""
    await context.replicas.replace(await context.victim(), signal.SIGKILL)


async def term(context: FaultContext) -> None:
    """Stop a replica by SIGTERM."""
    await context.replicas.replace(await context.victim(), signal.SIGTERM)


async def gap(context: FaultContext) -> None:
    """Cut a replica's watches, delete pods meanwhile, and compact etcd: the replica must list again."""
    victim = await context.victim()
    victim.wire.refusing = True
    victim.wire.cut(hard=True)
    await context.world.sweep(context.dice)
    await asyncio.sleep(context.dice.uniform(0.1, _LONG))
    context.api.compact()
    victim.wire.refusing = False


async def cut(context: FaultContext) -> None:
    """Cut a replica's connections within an event or an answer."""
    for _ in range(3):
        victim = await context.victim()
        victim.wire.cut(after=context.dice.randrange(1, 4000), hard=context.dice.random() < 0.5)
        await asyncio.sleep(0.1)


async def restart(context: FaultContext) -> None:
    """Kill the API server, now and then etcd too, and start them again."""
    context.api.kill()
    if context.dice.random() < 0.3:
        context.api.kill("etcd")
    await context.api.restart()


async def shrink(context: FaultContext) -> None:
    """Remove a device from a node's slice for a while: its labels and its slice disagree."""
    await context.world.shrink(context.dice.uniform(0.5, _LONG))


async def jump(context: FaultContext) -> None:
    """Set the clocks of all replicas to other times."""
    for replica in context.replicas.processes:
        if replica.ready.is_set():
            replica.send(signal.SIGUSR1)


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
