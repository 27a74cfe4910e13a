"""Pods of gpushare, HAMi and KAI with nothing but their schedulerName changed, and what they get."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import yaml

from deploy import render
from fairlead.cache.types import LivePod
from fairlead.catalog import Catalog
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import Kind
from fairlead.lab.control import helm
from fairlead.lab.run.steps import StepPrinter
from tests.labs import LABEL, RealCluster
from tests.serve.scheduler.leader.mixed import Mixed, mixed

MIB = 1 << 20
GPUS = {"small": ("t4", 16), "large": ("a100", 40)}
GROUP = "admissionregistration.k8s.io"
POLICIES = {
    name: Kind.of(GROUP, "v1", plural, namespaced=False, name=name)
    for name, plural in {
        "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
        "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
    }.items()
}


@dataclass(frozen=True)
class MigratedPod:
    """A pod of another project, and its expected shares: MiB and thousandths of compute, for each device."""

    limits: dict[str, str]
    memory: int
    compute: int = 0
    nodes: tuple[str, ...] = ("small", "large")
    notes: dict[str, str] = field(default_factory=dict)


MOVED = {
    "gpushare-gib": MigratedPod({"aliyun.com/gpu-mem": "3"}, 3 * 1024),
    "gpushare-mib": MigratedPod({"aliyun.com/gpu-mem": "2138"}, 2138),
    "hami-memory": MigratedPod({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}, 3000),
    "hami-cores": MigratedPod(
        {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1024", "nvidia.com/gpucores": "30"}, 1024, 300
    ),
    "hami-percent": MigratedPod(
        {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "25"},
        4 * 1024,
        nodes=("small",),
        notes={"nvidia.com/use-gputype": "T4"},
    ),
    "hami-chosen": MigratedPod(
        {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "2000", "nvidia.com/priority": "1"},
        2000,
        nodes=("large",),
        notes={"nvidia.com/use-gputype": "A100,V100"},
    ),
    "hami-avoided": MigratedPod(
        {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "2000"},
        2000,
        nodes=("small",),
        notes={"nvidia.com/nouse-gputype": "A100"},
    ),
    "kai-memory": MigratedPod({"cpu": "1"}, 2000, notes={"gpu-memory": "2000"}),
    "kai-fraction": MigratedPod(
        {"cpu": "1"},
        4 * 1024,
        nodes=("small",),
        notes={"gpu-fraction": "0.25", "fairlead.dev/accelerators": "t4"},
    ),
}


def test_pods_of_other_projects_get_what_they_got_there(real_cluster: RealCluster, catalog: Catalog) -> None:
    async def scenario() -> None:
        async with mixed(real_cluster, catalog, GPUS) as world:
            # A pod with a single possible node comes first: the others could fill that node.
            choosy = [name for name, moved in MOVED.items() if len(moved.nodes) == 1]
            for names in (choosy, [name for name in MOVED if name not in choosy]):
                for name in names:
                    await world.create_pod(name, MOVED[name].limits, annotations=MOVED[name].notes)
                await world.places(*names)
            places = await world.places(*MOVED)
            for name, moved in MOVED.items():
                assert places[name] in moved.nodes, f"{name} is on {places[name]}"
                (share,) = json.loads(await world.placement_annotation(name))["shares"]
                amounts = (share["memory_bytes"], share["compute_milli"], share["whole"])
                assert amounts == (moved.memory * MIB, moved.compute, False), name

    asyncio.run(scenario())


def test_no_other_pod_gets_a_part_of_a_whole_gpu(real_cluster: RealCluster, catalog: Catalog) -> None:
    async def scenario() -> None:
        async with mixed(real_cluster, catalog, {"only": ("t4", 16)}) as world:
            await world.create_pod("whole", {"nvidia.com/gpu": "1"})
            await world.places("whole")
            await world.create_pod("part", {"aliyun.com/gpu-mem": "1"})
            assert "accelerators can take part" in await world.pending_message("part", "1 lacks memory")

    asyncio.run(scenario())


@asynccontextmanager
async def policy(client: Client, namespace: str) -> AsyncIterator[None]:
    """Install the chart's policy for the scheduler of a namespace."""
    options = [
        "--set=scheduler.enabled=true",
        f"--set=scheduler.name={namespace}",
        "--kube-version=1.37.1",
        "--api-versions=resource.k8s.io/v1",
        "--show-only=templates/mutate-fractions.yaml",
    ]
    text = render.template(helm.program(StepPrinter(io.StringIO())), *options)
    for each in yaml.safe_load_all(text.replace("fairlead-fractions", namespace)):
        each["metadata"]["labels"] = {LABEL: namespace}
        await client.create(POLICIES[each["kind"]], each)
    try:
        yield
    finally:
        for kind in POLICIES.values():
            await client.delete_collection(kind, labels=f"{LABEL}={namespace}")


def test_a_pod_that_requests_by_annotation_gets_a_resource_for_its_handover(
    real_cluster: RealCluster, catalog: Catalog
) -> None:
    async def scenario() -> None:
        async with mixed(real_cluster, catalog, GPUS) as world:
            await world.create_pod("bare", {}, annotations={"gpu-fraction": "0.5"})
            await world.places("bare")
            async with asyncio.timeout(300):
                while not any("can be handed over" in text for text in await world.events_of("bare")):
                    await asyncio.sleep(0.1)
            async with policy(world.client, world.namespace):
                pod = await _mutated(world)
            assert {mapping.resource_name for mapping in _mappings(pod)} == {"fairlead.dev/share"}
            (claim,) = await world.claims()
            used = claim.results[0].consumed_capacity["memory"]
            assert used in ("2Gi", "5Gi", "2048Mi", "5120Mi"), "an eighth of what the accelerator has"

    asyncio.run(scenario())


async def _mutated(world: Mixed) -> LivePod:
    """Create pods until the server applies the policy, and return the first changed pod, bound."""
    async with asyncio.timeout(300):
        for number in range(100):
            name = f"new-{number}"
            await world.create_pod(name, {"cpu": "100m"}, annotations={"gpu-fraction": "0.125"})
            pod = next(each for each in await world.pods() if each.metadata.name == name)
            if "fairlead.dev/share" in pod.spec.containers[0].resources.limits:
                await world.places(name)
                return next(each for each in await world.pods() if each.metadata.name == name)
            await world.delete(name)
            await asyncio.sleep(0.3)
    raise AssertionError("the policy was never taken in")


def _mappings(pod: LivePod) -> tuple[Any, ...]:
    return pod.status.extended_resource_claim_status.request_mappings
