"""Preemption on a real API server: exactly as many victims as needed, with one replica and with three.

`make test` runs a few; FAIRLEAD_CHAOS=long runs two hundred, and checks how long each took.
"""

import asyncio
import os
import time
from contextlib import AsyncExitStack, suppress
from random import Random

import pytest

from fairlead.cache.types import BUDGETS, SCHEDULED, LivePod
from fairlead.catalog import Catalog
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import PODS
from fairlead.serve.scheduler.driver import Scheduler
from tests.labs import RealCluster
from tests.serve.scheduler.chaos.preemption import HALF, HIGH, WHOLE, FullWorld, open_full_world, preemptor_of
from tests.serve.scheduler.replica import settings
from tests.serve.scheduler.test_real import running
from tests.serve.scheduler.world import bound

LONG = os.environ.get("FAIRLEAD_CHAOS") == "long"
SEED = int(os.environ.get("FAIRLEAD_CHAOS_SEED", "1"))
RUNS = 100 if LONG else 2
SOON = 5.0
"""Seconds in which a preemptor is bound, on an idle machine."""


@pytest.mark.parametrize("replicas", [1, 3])
def test_victims_are_exactly_as_many_as_are_needed(
    real_cluster: RealCluster, catalog: Catalog, replicas: int
) -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(real_cluster.connect())
            full = await stack.enter_async_context(open_full_world(client, real_cluster.namespace, nodes=3))
            for number in range(replicas):
                await stack.enter_async_context(running(full, catalog, f"replica-{number}"))
            took = [await played(full, Random(SEED * 1000 + replicas * 500 + run)) for run in range(RUNS)]
            if LONG:
                late = sum(seconds > SOON for seconds in took)
                print(f"\n{replicas} replicas: {RUNS} runs, slowest {max(took):.2f} s, {late} above {SOON} s")
                assert not late

    asyncio.run(scenario())


async def played(full: FullWorld, dice: Random) -> float:
    """Run one preemption; return the seconds from the pod's creation to its binding."""
    await full.fill(waiting=dice.randint(0, 50) if LONG else dice.choice((0, 8)))
    names, needed = await full.preempt(dice)
    began = time.monotonic()
    pods = await full.until(
        lambda pods: {each.metadata.name for each in pods} >= {*names} and bound(*names)(pods)
    )
    took = time.monotonic() - began
    assert len(full.evicted) == needed, sorted(each.metadata.name for each in full.evicted.values())
    preemptors = {f"{full.namespace}/{name}" for name in names}
    assert all(victim.spec.node_name for victim in full.evicted.values())
    assert {preemptor_of(victim) for victim in full.evicted.values()} <= preemptors
    assert not [each for each in pods if each.metadata.name in names and not each.spec.node_name]
    await full.clear()
    return took


def test_the_next_leader_uses_the_places_that_a_killed_leader_freed_by_eviction(
    real_cluster: RealCluster, catalog: Catalog
) -> None:
    async def scenario() -> None:
        async with (
            real_cluster.connect() as client,
            open_full_world(client, real_cluster.namespace, nodes=2) as full,
        ):
            lines: list[str] = []
            first = Scheduler(client, catalog, settings("first", full.namespace), lines.append)
            leader = asyncio.create_task(first.run(asyncio.Event()))
            await full.fill(waiting=6)
            full.ending.clear()
            await full.pod("vip", mib=WHOLE, priorityClassName=HIGH)
            await full.until(lambda pods: sum(bool(pod.metadata.deletion_timestamp) for pod in pods) == 2)
            leader.cancel()
            with suppress(asyncio.CancelledError):
                await leader
            (vip,) = [pod for pod in await full.pods() if pod.metadata.name == "vip"]
            assert vip.status.nominated_node_name
            async with running(full, catalog, "second") as lines:
                async with asyncio.timeout(300):
                    while not any(line.startswith("deciding") for line in lines):
                        await asyncio.sleep(0.1)
                full.ending.set()
                await full.until(bound("vip"))
                assert len(full.evicted) == 2
                assert not [line for line in lines if line.startswith("evicted")]

    asyncio.run(scenario())


def test_a_budget_that_allows_no_eviction_is_kept_and_named_until_it_allows_one(
    real_cluster: RealCluster, catalog: Catalog
) -> None:
    async def scenario() -> None:
        async with (
            real_cluster.connect() as client,
            open_full_world(client, real_cluster.namespace, nodes=1) as full,
            running(full, catalog),
        ):
            await full.fill(waiting=0)
            for pod in await full.pods():
                phase = {"status": {"phase": "Running"}}  # a pod that has not started is in no budget
                await client.patch_status(PODS, pod.metadata.name, phase, full.namespace)
            budgets, everything = BUDGETS.raw(), {"maxUnavailable": 1, "selector": {}}
            body = {"metadata": {"name": "guard"}, "spec": everything}
            made = await client.create(budgets, body, full.namespace)
            await allow(client, full.namespace, made.metadata.generation, 0)
            await full.pod("vip", mib=HALF, priorityClassName=HIGH)
            pods = await full.until(lambda pods: any("guard" in why(pod) for pod in pods))
            assert "PodDisruptionBudget guard (0 allowed)" in " ".join(map(why, pods))
            assert not any(pod.metadata.deletion_timestamp for pod in pods)
            await allow(client, full.namespace, made.metadata.generation, 1)
            await full.until(bound("vip"))
            assert len(full.evicted) == 1

    asyncio.run(scenario())


async def allow(client: Client, namespace: str, generation: int, evictions: int) -> None:
    """Do what the disruption controller does."""
    counts = {"currentHealthy": 4, "desiredHealthy": 3, "expectedPods": 4, "disruptionsAllowed": evictions}
    status = {"status": {"observedGeneration": generation, **counts}}
    await client.patch_status(BUDGETS.raw(), "guard", status, namespace)


def why(pod: LivePod) -> str:
    """Return why a pod waits, from its condition."""
    return pod.condition(SCHEDULED).message
