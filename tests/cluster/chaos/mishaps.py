"""Mishaps of a cluster and of the connection to it. Each mishap is over when its function returns."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from tests.cluster.chaos.world import LARGE, World

Mishap = Callable[[World, float], Awaitable[None]]
"""Takes the world, and the seconds of a freeze."""


async def freeze(world: World, seconds: float) -> None:
    """Stop the API server for a while; requests wait, connections stay open, no event arrives."""
    world.api.freeze()
    waiting = asyncio.create_task(world.write(5))
    await asyncio.sleep(seconds)
    observed = [(follower.informer.age, follower.informer.last_error) for follower in world.followers]
    world.api.thaw()
    await waiting
    assert all(age > seconds - 1 for age, _ in observed), "age is the time since the last response"
    assert all(error for _, error in observed), "last_error says why"


async def kill(world: World, seconds: float) -> None:
    """Kill the API server and start it again: it has no memory of its watches."""
    world.api.kill()
    await world.api.restart()
    await world.write(20)


async def forget(world: World, seconds: float) -> None:
    """Keep the informers disconnected while objects change and etcd is compacted: their watches get 410."""
    await world.write(10)
    await world.agree()
    world.wire.refusing = True
    world.wire.cut(hard=True)
    await world.write(20)
    world.api.compact()
    await world.write(5)
    world.wire.refusing = False


async def forget_all(world: World, seconds: float) -> None:
    """The same, with an API server that restarts with an empty cache: 410 for every kind."""
    world.wire.refusing = True
    world.wire.cut()
    await world.write(20)
    world.api.compact()
    world.api.kill()
    await world.api.restart()
    await world.write(5)
    world.wire.refusing = False


async def go_back(world: World, seconds: float) -> None:
    """Restore an old backup: the informers' versions are ahead of the server."""
    backup = world.api.backup()
    await world.write(60)
    await world.agree()
    await world.api.restore(backup)


async def cut(world: World, seconds: float) -> None:
    """Cut the stream several times, mostly in the middle of an event."""
    for _ in range(4):
        world.wire.cut(after=world.random.randrange(1, LARGE), hard=world.random.random() < 0.5)
        await world.write(10, large=0.3)


async def half_open(world: World, seconds: float) -> None:
    """Let the connections die silently while objects change."""
    world.wire.deaden()
    await world.write(20)


async def blackout(world: World, seconds: float) -> None:
    """Close every connection and refuse new ones for a while."""
    world.wire.refusing = True
    world.wire.cut(hard=world.random.random() < 0.5)
    await world.write(20)
    await asyncio.sleep(seconds / 3)
    world.wire.refusing = False


async def calm(world: World, seconds: float) -> None:
    """Only write."""
    await world.write(40)


MISHAPS: Final[Mapping[str, Mishap]] = {
    "calm": calm,
    "cut": cut,
    "half-open": half_open,
    "blackout": blackout,
    "forget": forget,
    "freeze": freeze,
    "kill": kill,
    "forget-all": forget_all,
    "go-back": go_back,
}
