"""Quotas on a real API server: every syntax is counted, by the server itself or by the scheduler."""

import asyncio
from itertools import count
from typing import Any

import pytest

from fairlead.cache.types import CLAIMS, QUOTAS
from fairlead.catalog import Catalog
from fairlead.cluster.client import Client
from fairlead.errors import AccessError
from tests.labs import RealCluster
from tests.serve.scheduler.cycle.test_migrated_pods import policy
from tests.serve.scheduler.leader.mixed import Mixed, mixed

NUMBERS = count()
GPUS = {"only": ("t4", 16)}
MEMORY, SHARE = "requests.fairlead.dev/gpu-mem", "requests.fairlead.dev/share"
BY_RESOURCE = (
    "fairlead.dev/gpu-mem",
    "fairlead.dev/gpu-mem-gib",
    "fairlead.dev/t4",
    "nvidia.com/gpu",
    "aliyun.com/gpu-mem",
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
    "fairlead.dev/share",
)
BY_ANNOTATION = (
    "gpu-fraction",
    "gpu-memory",
    "gpu-fraction-num-devices",
    "fairlead.dev/model",
    "fairlead.dev/gpu-compute",
    "fairlead.dev/accelerator-count",
)
BY_CLAIM = ("count/resourceclaims.resource.k8s.io", "fairlead.dev.deviceclass.resource.k8s.io/devices")


async def limit(client: Client, namespace: str, hard: dict[str, str]) -> None:
    """Create a quota, with the status that the controller manager writes."""
    await client.create(QUOTAS.raw(), {"metadata": {"name": "gpus"}, "spec": {"hard": hard}}, namespace)
    status = {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}
    await client.patch_status(QUOTAS.raw(), "gpus", status, namespace)


async def refused(world: Mixed, word: str, limits: dict[str, str], notes: dict[str, str]) -> None:
    """Create pods until the server, which may not apply the policy yet, refuses one for a quota."""
    message = ""
    async with asyncio.timeout(300):
        while not message:
            name = f"p{next(NUMBERS)}"
            try:
                await world.create_pod(name, limits, annotations=notes)
                await asyncio.sleep(0.1)
            except AccessError as error:
                message = str(error)
    assert f"exceeded quota: gpus, requested: {word}=1" in message


def test_the_server_counts_requests_in_any_syntax(real_cluster: RealCluster, catalog: Catalog) -> None:
    async def scenario() -> None:
        async with mixed(real_cluster, catalog, GPUS) as world, policy(world.client, world.namespace):
            counted = (*(f"requests.{name}" for name in BY_RESOURCE), *BY_CLAIM)
            await limit(world.client, world.namespace, dict.fromkeys(counted, "0"))
            for name in BY_RESOURCE:
                await refused(world, f"requests.{name}", {name: "1"}, {})
            for key in BY_ANNOTATION:
                await refused(world, SHARE, {}, {key: "1"})
            request = {"name": "gpu", "exactly": {"deviceClassName": "fairlead.dev"}}
            body = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
            with pytest.raises(AccessError, match=f"{BY_CLAIM[0]}=1,{BY_CLAIM[1]}=1"):
                await world.client.create(CLAIMS.raw(), body, world.namespace)

    asyncio.run(scenario())


def test_the_scheduler_counts_the_memory_that_is_requested_by_annotation(
    real_cluster: RealCluster, catalog: Catalog
) -> None:
    async def scenario() -> None:
        async with mixed(real_cluster, catalog, GPUS) as world:
            await limit(world.client, world.namespace, {MEMORY: "10000", SHARE: "2"})
            await world.create_pod("by-resource", {"fairlead.dev/gpu-mem": "1000"})
            await world.create_pod("quarter", {}, annotations={"gpu-fraction": "0.25"})
            await world.places("by-resource", "quarter")
            await world.create_pod("more", {}, annotations={"gpu-memory": "5000"})
            used = f"requested: {MEMORY}=5000, used: {MEMORY}=5096, limited: {MEMORY}=10000"
            assert used in await world.pending_message("more")
            await grow(world, {MEMORY: "20000", SHARE: "2"})
            await world.places("more")
            await world.create_pod("third", {}, annotations={"gpu-memory": "1"})
            assert (
                f"requested: {SHARE}=1, used: {SHARE}=2, limited: {SHARE}=2"
                in await world.pending_message("third")
            )
            await world.delete("quarter")
            await world.places("third")

    async def grow(world: Mixed, hard: dict[str, Any]) -> None:
        await world.client.patch(QUOTAS.raw(), "gpus", {"spec": {"hard": hard}}, world.namespace)

    asyncio.run(scenario())
