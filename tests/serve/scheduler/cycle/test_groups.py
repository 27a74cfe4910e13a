"""Groups as Kubernetes 1.37 spells them, on a real API server that serves them; by default none does."""

import asyncio
import io
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fairlead.catalog import Catalog
from fairlead.cluster.client import Client
from fairlead.cluster.config import kubeconfig
from fairlead.cluster.kinds import PODS, Kind
from fairlead.errors import LabError, MissingApiError
from fairlead.lab.build.prerequisites import gather
from fairlead.lab.control.tuning import LabTuning
from fairlead.lab.run import home
from fairlead.lab.run.down import down
from fairlead.lab.run.state import LabProfile
from fairlead.lab.run.steps import StepPrinter
from fairlead.lab.run.up import LabSpec, up
from fairlead.serve.scheduler.report.podgroup_status import PLACED_ONCE
from tests.labs import (
    LABEL,
    OWN_CLUSTER,
    RealApi,
    RealCluster,
    open_namespace,
    skip_without_lab,
    wipe_namespace,
)
from tests.serve.scheduler.leader.mixed import Mixed, mixed

pytestmark = pytest.mark.xdist_group("groups")
GROUPS = Kind.of("scheduling.k8s.io", "v1beta1", "podgroups", namespaced=True, name="PodGroup")
CLASSES = Kind.of("scheduling.k8s.io", "v1", "priorityclasses", namespaced=False, name="PriorityClass")
GPUS = {"a": ("t4", 16), "b": ("t4", 16)}
WHOLE = {"fairlead.dev/gpu-mem": "16384"}
WITH_GROUPS = LabTuning("GenericWorkload=true", "scheduling.k8s.io/v1beta1=true")


@pytest.fixture(scope="module")
def api() -> Iterator[RealApi]:
    """Return an API server that serves groups: a lab of its own, or the user's if it serves them."""
    if own := os.environ.get(OWN_CLUSTER):
        config = kubeconfig.load(own)
        if not asyncio.run(_serves_groups(RealApi(config, Path(own), None))):
            pytest.skip("a cluster of the user's own without PodGroups")
        yield RealApi(config, Path(own), None)
        return
    where, name, quiet = home.default(os.environ), f"test-{os.getpid()}-groups", StepPrinter(io.StringIO())
    try:
        gather(LabProfile.API, quiet, kwok=False)
    except LabError as error:
        skip_without_lab(str(error).splitlines()[0])
    lab = up(where, LabSpec(LabProfile.API, name, owner=os.getpid(), tuning=WITH_GROUPS), quiet)
    try:
        yield RealApi(kubeconfig.load(str(lab.kubeconfig)), lab.kubeconfig, lab)
    finally:
        down(where, name)


async def _serves_groups(api: RealApi) -> bool:
    async with Client.connect(api.config) as client:
        try:
            await client.list(GROUPS)
        except MissingApiError:
            return False
        return True


@pytest.fixture
def room(api: RealApi, request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """Return a fresh namespace there."""
    namespace = f"groups-{abs(hash(request.node.name)) % 10**9}"
    asyncio.run(open_namespace(api, namespace))
    try:
        yield RealCluster(api, namespace)
    finally:
        asyncio.run(wipe_namespace(api, namespace))


async def group(world: Mixed, name: str, least: int | None = None, **spec: Any) -> None:
    """Create a group: a gang of at least `least` pods, or one whose pods are placed one by one."""
    policy = {"basic": {}} if least is None else {"gang": {"minCount": least}}
    body = {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy, **spec}}
    await world.client.create(GROUPS, body, world.namespace)


async def member(world: Mixed, name: str, of: str, **more: Any) -> None:
    await world.create_pod(name, WHOLE, schedulingGroup={"podGroupName": of}, **more)


async def group_message(world: Mixed, name: str, status: str) -> str:
    """Wait until a group has a condition of this status, and return its message."""
    async with asyncio.timeout(300):
        while True:
            document = json.loads(await world.client.request("GET", GROUPS.path(world.namespace, name)))
            for each in document.get("status", {}).get("conditions", ()):
                if (each["type"], each["status"]) == (PLACED_ONCE, status):
                    return str(each["message"])
            await asyncio.sleep(0.1)


@asynccontextmanager
async def classes(world: Mixed, **values: int) -> AsyncIterator[dict[str, str]]:
    """Create priority classes, and return their names."""
    names = {name: f"{world.namespace}-{name}" for name in values}
    for name, value in values.items():
        meta = {"name": names[name], "labels": {LABEL: world.namespace}}
        await world.client.create(CLASSES, {"metadata": meta, "value": value})
    try:
        yield names
    finally:
        await world.client.delete_collection(CLASSES, labels=f"{LABEL}={world.namespace}")


def test_the_pods_of_a_gang_are_created_one_by_one_and_bound_together(
    room: RealCluster, catalog: Catalog
) -> None:
    async def scenario() -> None:
        async with mixed(room, catalog, GPUS) as world:
            await member(world, "one", "late")
            assert "no PodGroup" in await world.pending_message("one")
            await group(world, "late", 2)
            assert "has 1 member and must have 2" in await world.pending_message("one", "must have")
            assert "must have 2" in await group_message(world, "late", "False")
            await member(world, "two", "late")
            assert set((await world.places("one", "two")).values()) == {"a", "b"}
            await group_message(world, "late", "True")

    asyncio.run(scenario())


def test_a_gang_that_does_not_fit_holds_nothing_until_its_minimum_is_lowered(
    room: RealCluster, catalog: Catalog
) -> None:
    async def scenario() -> None:
        async with mixed(room, catalog, GPUS) as world:
            await group(world, "three", 3)
            for name in ("one", "two", "three"):
                await member(world, name, "three")
            assert "only 2 of 3 of the gang fit" in await world.pending_message("one", "of the gang fit")
            await world.create_pod("other", {"fairlead.dev/gpu-mem": "1024"})
            await world.places("other")
            await world.client.delete(PODS, "other", world.namespace, grace=0)
            await world.clean()
            smaller = {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
            await world.client.patch(GROUPS, "three", smaller, world.namespace)
            await world.until(lambda pods: sum(bool(pod.spec.node_name) for pod in pods) == 2, 30.0)

    asyncio.run(scenario())


def test_a_group_without_a_gang_is_placed_one_by_one(room: RealCluster, catalog: Catalog) -> None:
    async def scenario() -> None:
        async with mixed(room, catalog, GPUS) as world:
            await group(world, "loose")
            for name in ("one", "two", "three"):
                await member(world, name, "loose")
            await world.until(lambda pods: sum(bool(pod.spec.node_name) for pod in pods) == 2, 30.0)

    asyncio.run(scenario())


def test_a_gang_of_higher_priority_evicts_pods_and_one_that_may_not_preempt_waits(
    room: RealCluster, catalog: Catalog
) -> None:
    async def scenario() -> None:
        async with mixed(room, catalog, GPUS) as world, classes(world, high=1000) as names:
            for name in ("low-one", "low-two"):
                await world.create_pod(name, WHOLE)
            await world.places("low-one", "low-two")
            await group(world, "meek", 2)
            for name in ("meek-one", "meek-two"):
                await member(world, name, "meek")
            await world.pending_message("meek-one", "of the gang fit")
            await group(world, "strong", 2, priorityClassName=names["high"])
            for name in ("one", "two"):
                await member(world, name, "strong", priorityClassName=names["high"])
            await world.until(
                lambda pods: sum(bool(pod.metadata.deletion_timestamp) for pod in pods) == 2, 30.0
            )
            for name in ("low-one", "low-two"):
                await world.delete(name)  # as their kubelet would
            assert set((await world.places("one", "two")).values()) == {"a", "b"}
            await world.pending_message("meek-one", "of the gang fit")

    asyncio.run(scenario())
