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
    """The mishaps to play, and the timing."""

    rounds: tuple[str, ...]
    freeze: float
    timing: WatchTiming
    seed: int


def plan() -> Plan:
    """Return the plan that the environment selects."""
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


def test_after_every_mishap_the_informers_agree_with_a_fresh_list(chaos_api: ChaosApi) -> None:
    asyncio.run(play(chaos_api, plan()))


def test_a_server_without_streamed_lists_gets_plain_list_requests(chaos_api: ChaosApi) -> None:
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
    """Play all rounds; a dead connection may cost one idle timeout, then a list must follow."""
    seen: Counter[str] = Counter()
    async with busy_world(api, script.timing, script.seed) as world:
        await world.agree()
        print(f"\nseed {script.seed}, {len(script.rounds)} rounds, freeze {script.freeze:.0f} s")
        for number, name in enumerate(script.rounds, 1):
            before = world.spy.count.copy()
            await MISHAPS[name](world, script.freeze)
            took = await world.agree(limit=script.timing.idle_timeout + 30.0)
            requests = world.spy.count - before
            seen += requests
            if name in ("calm", "cut") and script.timing.idle_timeout > 5:
                assert not requests["stream"] + requests["list"], "no list if no event was missed"
            print(f"{number:3} {name:11} agreed after {took:5.2f} s  {format_counter(requests)}", flush=True)
        print(f"{world.writes} writes, {format_counter(seen)}; {reports(world)}")
    check(seen, script)


def check(seen: Counter[str], script: Plan) -> None:
    """Check that the mishaps had their effect; with short timeouts a list may come before a 410."""
    if script.timing.idle_timeout > 5:
        assert seen["GoneError"] >= script.rounds.count("forget")
    assert seen["ClusterUnavailableError"] >= script.rounds.count("cut")
    assert seen["stream"] + seen["list"] > 0


def format_counter(count: Counter[str]) -> str:
    """Return a counter on one line."""
    return ", ".join(f"{key} {value}" for key, value in sorted(count.items())) or "no request"


def reports(world: World) -> str:
    """Return how many changes each informer reported, and how many objects it has."""
    return "; ".join(
        f"{follower.name}: {follower.log.changes} changes, {len(follower.informer.objects)} objects"
        for follower in world.followers
    )
