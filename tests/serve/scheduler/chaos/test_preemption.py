"""Quiet preemption on a real API server: as many victims as are needed, with one replica and with three.

`make test` plays a few; FAIRLEAD_CHAOS=long plays two hundred, and looks at how long each took.
"""

import asyncio
import os
import time
from contextlib import AsyncExitStack
from random import Random

import pytest

from fairlead.catalog import Catalog
from tests.labs import RealCluster
from tests.serve.scheduler.chaos.preemption import Full, filled, named
from tests.serve.scheduler.test_real import running
from tests.serve.scheduler.world import bound

LONG = os.environ.get("FAIRLEAD_CHAOS") == "long"
SEED = int(os.environ.get("FAIRLEAD_CHAOS_SEED", "1"))
RUNS = 100 if LONG else 2
SOON = 5.0
"""Seconds in which a preemptor is bound, on a machine that does nothing else."""


@pytest.mark.parametrize("replicas", [1, 3])
def test_victims_are_exactly_as_many_as_are_needed(
    real_cluster: RealCluster, catalog: Catalog, replicas: int
) -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(real_cluster.connect())
            full = await stack.enter_async_context(filled(client, real_cluster.namespace, nodes=3))
            for number in range(replicas):
                await stack.enter_async_context(running(full, catalog, f"replica-{number}"))
            took = [await played(full, Random(SEED * 1000 + replicas * 500 + run)) for run in range(RUNS)]
            if LONG:
                late = sum(seconds > SOON for seconds in took)
                print(f"\n{replicas} replicas: {RUNS} runs, slowest {max(took):.2f} s, {late} above {SOON} s")
                assert not late

    asyncio.run(scenario())


async def played(full: Full, dice: Random) -> float:
    """Play one preemption; return the seconds from the pod's coming to its binding."""
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
    assert {named(victim) for victim in full.evicted.values()} <= preemptors
    assert not [each for each in pods if each.metadata.name in names and not each.spec.node_name]
    await full.clear()
    return took
