"""The informer on a real API server to which bad things happen.

`make test` plays nearly every mishap once, with a short freeze. `make test-chaos` plays more than 20 rounds
with freezes of 15 seconds and prints what each cost; FAIRLEAD_CHAOS_SEED=N plays them in another order.
"""

import asyncio
import os
from collections import Counter
from dataclasses import dataclass
from random import Random

from fairlead.cluster.watch.reflector import WatchTiming
from tests.cluster.chaos.api import ChaosApi
from tests.cluster.chaos.mishaps import MISHAPS
from tests.cluster.chaos.world import World, busy_world


@dataclass(frozen=True)
class Plan:
    """How rough it gets."""

    rounds: tuple[str, ...]
    freeze: float
    timing: WatchTiming
    seed: int


def plan() -> Plan:
    """Return what the environment asks for."""
    seed = int(os.environ.get("FAIRLEAD_CHAOS_SEED", "1"))
    if os.environ.get("FAIRLEAD_CHAOS") != "long":
        timing = WatchTiming(
            idle_timeout=2.0, watch=(20.0, 40.0), healthy_after=1.0, initial_backoff=0.05, max_backoff=1.0
        )
        return Plan(tuple(name for name in MISHAPS if name != "forget-all"), 3.0, timing, seed)
    rounds = [name for name in MISHAPS for _ in range(3)]
    Random(seed).shuffle(rounds)
    timing = WatchTiming(
        idle_timeout=10.0, watch=(30.0, 60.0), healthy_after=5.0, initial_backoff=0.2, max_backoff=5.0
    )
    return Plan(tuple(rounds), 15.0, timing, seed)


def test_after_every_mishap_the_informers_know_what_a_fresh_list_says(chaos_api: ChaosApi) -> None:
    asyncio.run(play(chaos_api, plan()))


def test_a_server_that_does_not_stream_lists_is_asked_for_pages(chaos_api: ChaosApi) -> None:
    async def scenario() -> None:
        chaos_api.kill()
        await chaos_api.restart("--feature-gates=WatchList=false")
        async with busy_world(chaos_api, WatchTiming(), seed=1) as world:
            await world.agree()
            await world.write(20)
            await world.agree()
            assert world.spy.count == {"stream": 2, "InvalidError": 2, "list": 2, "watch": 2}

    asyncio.run(scenario())


async def play(api: ChaosApi, script: Plan) -> None:
    """Play all rounds; the silence of a dead connection may be waited for once, then a list must come."""
    seen: Counter[str] = Counter()
    async with busy_world(api, script.timing, script.seed) as world:
        await world.agree()
        print(f"\nseed {script.seed}, {len(script.rounds)} rounds, freeze {script.freeze:.0f} s")
        for number, name in enumerate(script.rounds, 1):
            before = world.spy.count.copy()
            await MISHAPS[name](world, script.freeze)
            took = await world.agree(limit=script.timing.idle_timeout + 30.0)
            asked = world.spy.count - before
            seen += asked
            if name in ("calm", "cut") and script.timing.idle_timeout > 5:
                assert not asked["stream"] + asked["list"], "where nothing was missed, nothing is listed"
            print(f"{number:3} {name:11} agreed after {took:5.2f} s  {told(asked)}", flush=True)
        print(f"{world.writes} writes, {told(seen)}; {reports(world)}")
    check(seen, script)


def check(seen: Counter[str], script: Plan) -> None:
    """See that the mishaps were what they claim to be; the impatient may list before they are told 410."""
    if script.timing.idle_timeout > 5:
        assert seen["GoneError"] >= script.rounds.count("forget")
    assert seen["ClusterAwayError"] >= script.rounds.count("cut")
    assert seen["stream"] + seen["list"] > 0


def told(count: Counter[str]) -> str:
    """Print a count on one line."""
    return ", ".join(f"{key} {value}" for key, value in sorted(count.items())) or "nothing asked"


def reports(world: World) -> str:
    """Print how much each informer told, and what it knows."""
    return "; ".join(
        f"{follower.name}: {follower.told.changes} changes, {len(follower.informer.objects)} objects"
        for follower in world.followers
    )
