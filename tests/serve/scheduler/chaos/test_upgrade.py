"""A rolling upgrade to a version that writes the next formats: nothing is allocated twice, no pod is lost.

Replicas of both versions compete for one Lease while pods come and go. Once a newer replica has led, an older
one steps aside: it cannot read what the newer one wrote.
"""

import asyncio
import json
import signal
from collections.abc import Callable, Sequence
from random import Random

from fairlead.cache.types import PLACEMENT, LivePod
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import LEASES, NODES
from fairlead.keys import FORMATS, PLACEMENT_FORMAT
from tests.cluster.chaos.api import ChaosApi
from tests.serve.scheduler.chaos.processes import ReplicaProcess, ReplicaProcesses
from tests.serve.scheduler.chaos.test_chaos import PATIENCE, bustling, end_well, staged
from tests.serve.scheduler.chaos.world import ChaosWorld, open_chaos_world
from tests.serve.scheduler.next_format import NEXT, adopted
from tests.serve.scheduler.world import DEVICE, bound


def test_a_rolling_upgrade_to_the_next_formats_allocates_nothing_twice(chaos_api: ChaosApi) -> None:
    async def scenario() -> None:
        async with (
            Client.connect(chaos_api.config) as client,
            open_chaos_world(client, "upgrade") as world,
            staged(chaos_api, world, Random(1)) as (stage, judge),
        ):
            replicas, older = stage.replicas, list(stage.replicas.processes)
            await upgrade_agent(world, world.nodes[0])
            async with bustling(stage):
                newer = await take_over(world, replicas, older)
                await world.until(placed_by(NEXT), PATIENCE)
                newer.send(signal.SIGKILL)
                await newer.process.wait()
                replicas.processes.remove(newer)
                await stand_by(world, replicas, older)
                newer = await replicas.add("next")
                await world.until(bound("patient"), PATIENCE)
            for replica in older:
                replica.send(signal.SIGTERM)
                await replica.process.wait()
                replicas.processes.remove(replica)
            await end_well(world, replicas)
            judge.check()
            assert not judge.violations, judge.violations[:3]
            assert judge.fullest > DEVICE // 2, "the devices were in use"

    with adopted():  # the judge reads what either version wrote
        asyncio.run(scenario())


async def upgrade_agent(world: ChaosWorld, node: str) -> None:
    """Have the agent of a node say that it reads placements of the next format; those of others do not."""
    await world.client.patch(NODES, node, {"metadata": {"annotations": {PLACEMENT_FORMAT: str(NEXT)}}})


async def take_over(
    world: ChaosWorld, replicas: ReplicaProcesses, older: list[ReplicaProcess]
) -> ReplicaProcess:
    """Kill the leader in the middle of its work; no other old replica runs, so that a newer one leads."""
    newer = await replicas.add("next")
    leader = await replicas.leader(world.client)
    for replica in older:
        replica.send(signal.SIGSTOP if replica is not leader else signal.SIGKILL)
    if leader in older:  # else the newer one leads already: a busy machine let the Lease expire
        await leader.process.wait()
        older.remove(leader)
        replicas.processes.remove(leader)
    await newer.logged("leading, epoch", PATIENCE)
    for replica in older:
        replica.send(signal.SIGCONT)
    return newer


async def stand_by(world: ChaosWorld, replicas: ReplicaProcesses, older: Sequence[ReplicaProcess]) -> None:
    """See that every old replica says why it does not lead, and that a pod waits meanwhile."""
    await world.pod("patient", mib=512, priorityClassName="first")
    lines = [await replica.logged("does not take the free Lease", PATIENCE) for replica in older]
    assert all(f"/{NEXT}" in line for line in lines), lines
    lease = await world.client.get(LEASES, "fairlead-scheduler", world.namespace)
    assert f"placement/{NEXT}" in lease.metadata.annotations[FORMATS]
    assert lease.spec.holder_identity not in {replica.name for replica in older}
    (patient,) = [pod for pod in await world.pods() if pod.metadata.name == "patient"]
    assert not patient.spec.node_name, "no replica can read what is allocated"


def placed_by(version: int) -> Callable[[Sequence[LivePod]], bool]:
    """Return what says whether a pod bears a placement of a version."""

    def found(pods: Sequence[LivePod]) -> bool:
        notes = [pod.metadata.annotations.get(PLACEMENT, "{}") for pod in pods]
        return any(json.loads(note).get("version") == version for note in notes)

    return found
