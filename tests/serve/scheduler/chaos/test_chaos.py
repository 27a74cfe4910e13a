"""Three replicas that are killed, stopped, cut off and given wrong times: no device is ever allocated twice.

`make test` runs a few rounds; with FAIRLEAD_CHAOS=long it is fifty and more, and some without fences, in
which the judge must find a violation. FAIRLEAD_CHAOS_SEED=N runs other rounds.
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
"""Seconds that three processes may take to start, on a busy machine."""
SHORT = ("ambush", "jump", "cut", "shrink", "kill")
BLIND = ("ambush", "dawdle", "ambush", "dawdle", "ambush", "dawdle")
"""The rounds without fences; two are mostly enough."""


def rounds(dice: Random) -> list[str]:
    """Return the names of the faults, in order."""
    if not LONG:
        return list(SHORT)
    listed = [name for name in FAULTS for _ in range(7)]
    dice.shuffle(listed)
    return listed


def test_no_device_is_allocated_twice_whatever_fails(chaos_api: ChaosApi) -> None:
    async def scenario() -> None:
        dice = Random(SEED)
        script = rounds(dice)
        print(f"\nseed {SEED}, {len(script)} rounds")
        async with (
            Client.connect(chaos_api.config) as client,
            open_chaos_world(client, "world") as world,
            staged(chaos_api, world, dice) as (context, judge),
        ):
            async with bustling(context):
                await play(script, context, judge)
            await end_well(world, context.replicas)
            judge.check()
            assert not judge.violations, f"seed {SEED}: {judge.violations[:3]}"
            print(
                f"{judge.checked} versions, {judge.gaps} gaps, at most {judge.fullest >> 20} MiB of a device"
                f", {judge.evictions} evictions"
            )
            assert judge.evictions or not LONG, "pods were preempted"
            assert judge.fullest > DEVICE // 2, "devices were in use"

    asyncio.run(scenario())


@pytest.mark.skipif(not LONG, reason="a minute or two: FAIRLEAD_CHAOS=long")
def test_without_fences_the_judge_finds_violations(chaos_api: ChaosApi) -> None:
    async def scenario(seed: int) -> bool:
        async with (
            Client.connect(chaos_api.config) as client,
            open_chaos_world(client, f"open-{seed}") as world,
            staged(chaos_api, world, Random(seed), unfenced=True) as (context, judge),
            bustling(context),
        ):
            print(f"\nseed {seed}, without fences")
            return not await play(BLIND, context, judge, strict=False)

    seen = [asyncio.run(scenario(SEED + number)) for number in range(3)]
    assert sum(seen) > 1, seen


async def play(script: Sequence[str], context: FaultContext, judge: Judge, *, strict: bool = True) -> bool:
    """Run all rounds; say whether no violation was found. `strict`: assert it."""
    for number, name in enumerate(script, 1):
        began = time.monotonic()
        await asyncio.sleep(context.dice.uniform(0.2, 1.0))
        await context.replicas.restart_ended()
        await FAULTS[name](context)
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
    api: ChaosApi, world: ChaosWorld, dice: Random, *, unfenced: bool = False
) -> AsyncIterator[tuple[FaultContext, Judge]]:
    """Run replicas and the judge."""
    async with (
        run_replicas(api, world.namespace, dice, unfenced=unfenced) as replicas,
        judged(world) as judge,
    ):
        await world.pod("first", mib=512)
        await world.until(bound("first"), PATIENCE)
        yield FaultContext(api, world, replicas, dice), judge


@asynccontextmanager
async def bustling(context: FaultContext) -> AsyncIterator[None]:
    """Create and delete pods while the block runs."""
    task = asyncio.create_task(context.world.churn(context.dice))
    yield
    assert not task.done(), "pods are still created"
    task.cancel()


@asynccontextmanager
async def judged(world: ChaosWorld) -> AsyncIterator[Judge]:
    """Run the judge and the controllers while the block runs."""
    judge = Judge(world.client, world.namespace, DEVICE)
    works = (judge.follow(PODS), judge.follow(CLAIMS), judge.mark(), world.tidy())
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield judge
    finally:
        for task in tasks:
            task.cancel()
        for error in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(error, asyncio.CancelledError), error


async def end_well(world: ChaosWorld, replicas: ReplicaProcesses) -> None:
    """Check that no gang is partly bound, fitting pods are placed, caches agree, and nothing is left."""
    await replicas.restart_ended()
    await world.until(no_gang_is_bound_in_part, PATIENCE)
    for pod in await world.pods():
        if pod.metadata.name != "mark":
            await world.delete(pod.metadata.name)
    names = [f"last-{number}" for number in range(6)]
    for name in names:
        await world.pod(name, mib=4096)
    await world.until(lambda pods: len(pods) == 7 and bound(*names)(pods), PATIENCE)
    await replicas.restart_ended()
    await asyncio.gather(*(agreed(world, replica) for replica in replicas.processes))
    for name in names:
        await world.delete(name)
    async with asyncio.timeout(300):
        while await world.allocated_bytes():
            await asyncio.sleep(0.1)


def no_gang_is_bound_in_part(pods: Sequence[LivePod]) -> bool:
    """Say whether every gang with two pods has both bound, or none."""
    gangs: dict[str, list[str]] = {}
    for pod in pods:
        if gang := pod.metadata.annotations.get("fairlead.dev/gang"):
            gangs.setdefault(gang, []).append(pod.spec.node_name)
    return all(all(nodes) or not any(nodes) for nodes in gangs.values() if len(nodes) == 2)


async def agreed(world: ChaosWorld, replica: ReplicaProcess) -> None:
    """Wait until the cache of a replica equals that of a fresh list."""
    for _ in range(40):
        if await replica.digest() == digest(await listed(world.client, world.namespace)):
            return
        await asyncio.sleep(0.25)
    raise AssertionError(f"{replica.name} does not hold the cluster of a fresh list")
