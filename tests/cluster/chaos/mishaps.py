"""What can happen to a cluster and to the way there. Each mishap is over when its function returns."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from tests.cluster.chaos.world import LARGE, World

Mishap = Callable[[World, float], Awaitable[None]]
"""Takes the world, and how many seconds a freeze lasts."""


async def freeze(world: World, seconds: float) -> None:
    """Stop the API server for a while; requests wait, connections stay open, nothing is said."""
    world.api.freeze()
    waiting = asyncio.create_task(world.write(5))
    await asyncio.sleep(seconds)
    noticed = [(follower.informer.age, follower.informer.last_error) for follower in world.followers]
    world.api.thaw()
    await waiting
    assert all(age > seconds - 1 for age, _ in noticed), "age says how long nothing was heard"
    assert all(trouble for _, trouble in noticed), "and trouble says why"


async def kill(world: World, seconds: float) -> None:
    """Kill the API server and start it anew: it remembers nothing of what it said."""
    world.api.kill()
    await world.api.restart()
    await world.write(20)


async def forget(world: World, seconds: float) -> None:
    """Keep the informers away while things change and etcd forgets: it is asked for events, and says 410."""
    await world.write(10)
    await world.agree()
    world.wire.refusing = True
    world.wire.cut(hard=True)
    await world.write(20)
    world.api.compact()
    await world.write(5)
    world.wire.refusing = False


async def forget_all(world: World, seconds: float) -> None:
    """The same, with an API server that starts without any memory: 410 for every kind."""
    world.wire.refusing = True
    world.wire.cut()
    await world.write(20)
    world.api.compact()
    world.api.kill()
    await world.api.restart()
    await world.write(5)
    world.wire.refusing = False


async def go_back(world: World, seconds: float) -> None:
    """Restore an old backup: all versions that the informers know are yet to come again."""
    backup = world.api.backup()
    await world.write(60)
    await world.agree()
    await world.api.restore(backup)


async def cut(world: World, seconds: float) -> None:
    """Cut the stream, mostly within an event, several times over."""
    for _ in range(4):
        world.wire.cut(after=world.random.randrange(1, LARGE), hard=world.random.random() < 0.5)
        await world.write(10, large=0.3)


async def half_open(world: World, seconds: float) -> None:
    """Let the connections die without a word, while things change."""
    world.wire.deaden()
    await world.write(20)


async def blackout(world: World, seconds: float) -> None:
    """Let no connection stand, old or new, for a while."""
    world.wire.refusing = True
    world.wire.cut(hard=world.random.random() < 0.5)
    await world.write(20)
    await asyncio.sleep(seconds / 3)
    world.wire.refusing = False


async def calm(world: World, seconds: float) -> None:
    """Nothing but work."""
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
