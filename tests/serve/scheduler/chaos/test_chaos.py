"""Three replicas that are killed, stopped, cut off and told wrong times: nothing is ever given away twice.

`make test` plays a few rounds; with FAIRLEAD_CHAOS=long it is fifty and more, and some without fences, in
which the judge must see what it looks for. FAIRLEAD_CHAOS_SEED=N plays others.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random

import pytest

from fairlead.cache.types import CLAIMS, PODS, LivePod
from fairlead.cluster.client import Client
from tests.cluster.chaos.api import ChaosApi
from tests.serve.scheduler.chaos.digest import digest, listed
from tests.serve.scheduler.chaos.faults import FAULTS, FaultContext
from tests.serve.scheduler.chaos.judge import Judge
from tests.serve.scheduler.chaos.processes import ReplicaProcess, ReplicaProcesses, run_replicas
from tests.serve.scheduler.chaos.world import ChaosWorld, open_chaos_world
from tests.serve.scheduler.world import DEVICE, bound

LONG = os.environ.get("FAIRLEAD_CHAOS") == "long"
SEED = int(os.environ.get("FAIRLEAD_CHAOS_SEED", "1"))
PATIENCE = 180.0
"""Seconds that three processes may take to start, on a machine that does much else."""
SHORT = ("ambush", "jump", "cut", "shrink", "kill")
BLIND = ("ambush", "dawdle", "ambush", "dawdle", "ambush", "dawdle")
"""What is played without fences; twice is enough mostly."""


def rounds(dice: Random) -> list[str]:
    """Return what happens, in order."""
    if not LONG:
        return list(SHORT)
    listed = [name for name in FAULTS for _ in range(7)]
    dice.shuffle(listed)
    return listed


def test_nothing_is_given_away_twice_whatever_happens(chaos_api: ChaosApi) -> None:
    async def scenario() -> None:
        dice = Random(SEED)
        script = rounds(dice)
        print(f"\nseed {SEED}, {len(script)} rounds")
        async with (
            Client.connect(chaos_api.config) as client,
            open_chaos_world(client, "town") as town,
            staged(chaos_api, town, dice) as (stage, judge),
        ):
            async with bustling(stage):
                await play(script, stage, judge)
            await end_well(town, stage.replicas)
            judge.check()
            assert not judge.violations, f"seed {SEED}: {judge.violations[:3]}"
            print(
                f"{judge.checked} versions, {judge.gaps} gaps, at most {judge.fullest >> 20} MiB of a device, "
                f"{judge.evictions} evictions"
            )
            assert judge.evictions or not LONG, "pods were preempted"
            assert judge.fullest > DEVICE // 2, "they were in use"

    asyncio.run(scenario())


@pytest.mark.skipif(not LONG, reason="a minute or two: FAIRLEAD_CHAOS=long")
def test_without_fences_the_judge_sees_what_it_looks_for(chaos_api: ChaosApi) -> None:
    async def scenario(seed: int) -> bool:
        async with (
            Client.connect(chaos_api.config) as client,
            open_chaos_world(client, f"open-{seed}") as town,
            staged(chaos_api, town, Random(seed), unfenced=True) as (stage, judge),
            bustling(stage),
        ):
            print(f"\nseed {seed}, without fences")
            return not await play(BLIND, stage, judge, strict=False)

    seen = [asyncio.run(scenario(SEED + number)) for number in range(3)]
    assert sum(seen) > 1, seen


async def play(script: Sequence[str], stage: FaultContext, judge: Judge, *, strict: bool = True) -> bool:
    """Play all rounds; say whether what was seen until then was right after each. `strict`: it must be."""
    for number, name in enumerate(script, 1):
        began = time.monotonic()
        await asyncio.sleep(stage.dice.uniform(0.2, 1.0))
        await stage.replicas.restart_ended()
        await FAULTS[name](stage)
        took = time.monotonic() - began
        print(
            f"{number:3} {name:8} {took:5.1f} s  {judge.checked} versions", *judge.violations[:1], flush=True
        )
        assert not (strict and judge.violations), f"seed {SEED}, round {number}: {judge.violations[:3]}"
        if judge.violations:
            return False
    return True


@asynccontextmanager
async def staged(
    api: ChaosApi, town: ChaosWorld, dice: Random, *, unfenced: bool = False
) -> AsyncIterator[tuple[FaultContext, Judge]]:
    """Have replicas at work, and the judge watch."""
    async with (
        run_replicas(api, town.namespace, dice, unfenced=unfenced) as troupe,
        judged(town) as judge,
    ):
        await town.pod("first", mib=512)
        await town.until(bound("first"), PATIENCE)
        yield FaultContext(api, town, troupe, dice), judge


@asynccontextmanager
async def bustling(stage: FaultContext) -> AsyncIterator[None]:
    """Have pods come and go while the block runs."""
    task = asyncio.create_task(stage.world.churn(stage.dice))
    yield
    assert not task.done(), "the bustle goes on"
    task.cancel()


@asynccontextmanager
async def judged(town: ChaosWorld) -> AsyncIterator[Judge]:
    """Have the judge watch, and the controllers do their part, while the block runs."""
    judge = Judge(town.client, town.namespace, DEVICE)
    works = (judge.follow(PODS), judge.follow(CLAIMS), judge.mark(), town.tidy())
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield judge
    finally:
        for task in tasks:
            task.cancel()
        for error in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(error, asyncio.CancelledError), error


async def end_well(town: ChaosWorld, troupe: ReplicaProcesses) -> None:
    """See that no gang is bound in part, all pods that fit are placed, all know the same, nothing is left."""
    await troupe.restart_ended()
    await town.until(no_gang_is_bound_in_part, PATIENCE)
    for pod in await town.pods():
        if pod.metadata.name != "mark":
            await town.delete(pod.metadata.name)
    names = [f"last-{number}" for number in range(6)]
    for name in names:
        await town.pod(name, mib=4096)
    await town.until(lambda pods: len(pods) == 7 and bound(*names)(pods), PATIENCE)
    await troupe.restart_ended()
    await asyncio.gather(*(agreed(town, player) for player in troupe.processes))
    for name in names:
        await town.delete(name)
    async with asyncio.timeout(20):
        while await town.allocated_bytes():
            await asyncio.sleep(0.1)


def no_gang_is_bound_in_part(pods: Sequence[LivePod]) -> bool:
    """Say whether of gangs whose two pods are there both are bound, or none."""
    gangs: dict[str, list[str]] = {}
    for pod in pods:
        if gang := pod.metadata.annotations.get("fairlead.dev/gang"):
            gangs.setdefault(gang, []).append(pod.spec.node_name)
    return all(all(nodes) or not any(nodes) for nodes in gangs.values() if len(nodes) == 2)


async def agreed(town: ChaosWorld, player: ReplicaProcess) -> None:
    """Wait until what a replica knows is a fold of a fresh list."""
    for _ in range(40):
        if await player.digest() == digest(await listed(town.client, town.namespace)):
            return
        await asyncio.sleep(0.25)
    raise AssertionError(f"{player.name} does not know what the list says")
