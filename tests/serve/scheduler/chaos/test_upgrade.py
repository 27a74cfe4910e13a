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
            open_chaos_world(client, "upgrade") as town,
            staged(chaos_api, town, Random(1)) as (stage, judge),
        ):
            troupe, older = stage.replicas, list(stage.replicas.processes)
            await upgrade_agent(town, town.nodes[0])
            async with bustling(stage):
                newer = await take_over(town, troupe, older)
                await town.until(placed_by(NEXT), PATIENCE)
                newer.send(signal.SIGKILL)
                await newer.process.wait()
                troupe.processes.remove(newer)
                await stand_by(town, troupe, older)
                newer = await troupe.add("next")
                await town.until(bound("patient"), PATIENCE)
            for player in older:
                player.send(signal.SIGTERM)
                await player.process.wait()
                troupe.processes.remove(player)
            await end_well(town, troupe)
            judge.check()
            assert not judge.violations, judge.violations[:3]
            assert judge.fullest > DEVICE // 2, "the devices were in use"

    with adopted():  # the judge reads what either version wrote
        asyncio.run(scenario())


async def upgrade_agent(town: ChaosWorld, node: str) -> None:
    """Have the agent of a node say that it reads placements of the next format; those of others do not."""
    await town.client.patch(NODES, node, {"metadata": {"annotations": {PLACEMENT_FORMAT: str(NEXT)}}})


async def take_over(
    town: ChaosWorld, troupe: ReplicaProcesses, older: list[ReplicaProcess]
) -> ReplicaProcess:
    """Kill the leader in the middle of its work; no other old replica runs, so that a newer one leads."""
    newer = await troupe.add("next")
    leader = await troupe.leader(town.client)
    for player in older:
        player.send(signal.SIGSTOP if player is not leader else signal.SIGKILL)
    await leader.process.wait()
    older.remove(leader)
    troupe.processes.remove(leader)
    await newer.logged("leading, epoch", PATIENCE)
    for player in older:
        player.send(signal.SIGCONT)
    return newer


async def stand_by(town: ChaosWorld, troupe: ReplicaProcesses, older: Sequence[ReplicaProcess]) -> None:
    """See that every old replica says why it does not lead, and that a pod waits meanwhile."""
    await town.pod("patient", mib=512, priorityClassName="first")
    lines = [await player.logged("does not take the free Lease", PATIENCE) for player in older]
    assert all(f"/{NEXT}" in line for line in lines), lines
    lease = await town.client.get(LEASES, "fairlead-scheduler", town.namespace)
    assert f"placement/{NEXT}" in lease.metadata.annotations[FORMATS]
    assert lease.spec.holder_identity not in {player.name for player in older}
    (patient,) = [pod for pod in await town.pods() if pod.metadata.name == "patient"]
    assert not patient.spec.node_name, "no replica can read what is allocated"


def placed_by(version: int) -> Callable[[Sequence[LivePod]], bool]:
    """Return what says whether a pod bears a placement of a version."""

    def found(pods: Sequence[LivePod]) -> bool:
        notes = [pod.metadata.annotations.get(PLACEMENT, "{}") for pod in pods]
        return any(json.loads(note).get("version") == version for note in notes)

    return found
