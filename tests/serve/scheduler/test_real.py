"""The scheduler on a real API server: a pod that fits is bound, one that does not gets a reason."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from fairlead.cache.types import CLAIMS, LEADER_EPOCH, SCHEDULED, LivePod
from fairlead.catalog import Catalog
from fairlead.cli.main import main
from fairlead.cluster.kinds import EVENTS, LEASES, PODS
from fairlead.placement import Placement
from fairlead.request import Request
from fairlead.serve.scheduler.bind import writes
from fairlead.serve.scheduler.bind.binder import Binder
from fairlead.serve.scheduler.bind.requests import Fences, send_with_retry
from fairlead.serve.scheduler.driver import Scheduler
from fairlead.serve.scheduler.replay import recorder
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests.labs import RealCluster
from tests.serve.scheduler.flows import run_on_server
from tests.serve.scheduler.replica import settings
from tests.serve.scheduler.world import GIB, World, bound, open_world

Script = Callable[[World], Awaitable[None]]
T = TypeVar("T")


@asynccontextmanager
async def running(
    world: World, catalog: Catalog, me: str = "one", *, own_claims: bool = True, record: Path | None = None
) -> AsyncIterator[list[str]]:
    """Run a replica beside the test; yield its log lines."""
    lines: list[str] = []
    stop = asyncio.Event()
    changed = replace(settings(me, world.namespace), own_claims=own_claims)
    recording = recorder(record, changed) if record is not None else None
    scheduler = Scheduler(world.client, catalog, changed, lines.append, recorder=recording)
    task = asyncio.create_task(scheduler.run(stop))
    try:
        yield lines
    finally:
        stop.set()
        await task
        if recording is not None:
            recording.close()


def run_script(room: RealCluster, catalog: Catalog, script: Script, nodes: int = 3) -> None:
    async def scenario() -> None:
        async with open_world(room, nodes) as world, running(world, catalog):
            await script(world)

    asyncio.run(scenario())


def test_plain_pods_shares_and_gangs_are_bound_and_no_device_is_allocated_twice(
    real_cluster: RealCluster, catalog: Catalog
) -> None:
    async def script(world: World) -> None:
        ring = {"fairlead.dev/gang": "ring", "fairlead.dev/gang-size": "2"}
        for number in range(12):
            await world.pod(f"plain-{number}")
            await world.pod(f"share-{number}", mib=512 + 128 * (number % 3))
        for name in ("first", "second"):
            await world.pod(name, mib=4096, notes=ring)
        pods = await world.until(lambda pods: len(pods) == 26 and bound()(pods))
        held = await world.allocated_bytes()
        assert sum(held.values()) == 4 * (512 + 640 + 768) * (1 << 20) + 8 * GIB
        assert len(await world.claims()) == 14
        assert {
            pod.metadata.name for pod in pods if pod.status.extended_resource_claim_status.request_mappings
        }

    run_script(real_cluster, catalog, script)


def test_a_named_claim_is_allocated_and_a_second_pod_is_bound_to_its_node(
    real_cluster: RealCluster, catalog: Catalog
) -> None:
    async def script(world: World) -> None:
        exactly = {"deviceClassName": "fairlead.dev", "capacity": {"requests": {"memory": "1Gi"}}}
        request = {"name": "gpu", "exactly": exactly}
        body = {"metadata": {"name": "mine"}, "spec": {"devices": {"requests": [request]}}}
        uses = [{"name": "gpu", "resourceClaimName": "mine"}]
        await world.pod("one", resourceClaims=uses)
        await world.client.create(CLAIMS.raw(), body, world.namespace)
        await world.until(bound("one"))
        await world.pod("two", resourceClaims=uses)
        pods = await world.until(lambda pods: len(pods) == 2 and bound()(pods))
        (claim,) = await world.claims()
        assert len(claim.status.reserved_for) == 2
        assert {pod.spec.node_name for pod in pods} == {result.pool for result in claim.results}

    run_script(real_cluster, catalog, script)


def test_a_pending_pod_gets_a_reason_and_is_bound_when_another_is_deleted(
    real_cluster: RealCluster, catalog: Catalog
) -> None:
    async def script(world: World) -> None:
        for number in range(2):
            await world.pod(f"large-{number}", mib=4096)
        await world.until(lambda pods: len(pods) == 2 and bound()(pods))
        await world.pod("late", mib=2048)
        pods = await world.until(
            lambda pods: any(pod.condition(SCHEDULED).message for pod in pods if not pod.spec.node_name)
        )
        (late,) = [pod for pod in pods if pod.metadata.name == "late"]
        assert "accelerators can take late" in late.condition(SCHEDULED).message
        async with asyncio.timeout(300.0):
            while not (events := (await world.client.list(EVENTS, world.namespace)).items):
                await asyncio.sleep(0.05)  # it follows the condition
        assert {event.reason for event in events} == {"FailedScheduling"}
        await world.delete("large-0")
        await world.until(bound("late"))

    run_script(real_cluster, catalog, script, nodes=1)


def test_a_replica_that_stops_releases_the_lease_and_the_next_one_leads(
    real_cluster: RealCluster, catalog: Catalog
) -> None:
    async def scenario() -> None:
        async with open_world(real_cluster, 1) as world:
            async with running(world, catalog, "one") as lines:
                await world.pod("a", mib=1024)
                await world.until(bound("a"))
            assert lines[-1] == "stopped; released the Lease"
            lease = await world.client.get(LEASES, "fairlead-scheduler", world.namespace)
            assert lease.spec.holder_identity == ""
            async with running(world, catalog, "two") as lines:
                await world.pod("b", mib=1024)
                await world.until(bound("a", "b"))
            assert "deciding; fenced 0 pending pods of the previous leader" in lines

    asyncio.run(scenario())


def test_claims_that_a_leader_left_half_done_are_deallocated_and_its_late_writes_fail(
    real_cluster: RealCluster, catalog: Catalog
) -> None:
    async def scenario() -> None:
        async with open_world(real_cluster, 1) as world:
            for name in ("half", "stuck"):
                await world.pod(name, mib=4096)
            half, stuck = (_plan(pod, world.nodes[0]) for pod in await world.pods())
            for request in (
                writes.set_claim_status(half),
                writes.create_claim(half.pod, half.placement.shares),
            ):
                await run_on_server(world.client, send_with_retry(request))
            (claim,) = await world.claims()
            allocation = writes.allocate(half, claim, {writes.REQUEST: half.placement.shares})
            await run_on_server(world.client, send_with_retry(allocation))
            await run_on_server(world.client, send_with_retry(writes.set_claim_status(stuck)))
            async with running(world, catalog) as lines:
                await world.until(bound())
            assert "deciding; fenced 2 pending pods of the previous leader" in lines
            late = writes.create_claim(stuck.pod, stuck.placement.shares)
            assert await run_on_server(world.client, send_with_retry(late)) is None
            binder = Binder(lambda epoch: True, Fences(print, lambda: "late"))
            assert set(await run_on_server(world.client, binder.bind([stuck], 1))) == {stuck.uid}
            assert sorted((await world.allocated_bytes()).values()) == [4 * GIB, 4 * GIB]

    asyncio.run(scenario())


def test_a_tenant_that_edits_its_running_pod_keeps_what_it_holds(
    real_cluster: RealCluster, catalog: Catalog
) -> None:
    async def scenario() -> None:
        async with open_world(real_cluster, 1) as world:
            async with running(world, catalog, "one", own_claims=False):
                for number in range(2):
                    await world.pod(f"mal-{number}", mib=4096)
                await world.until(lambda pods: len(pods) == 2 and bound()(pods))
            garbage = {"metadata": {"annotations": {"fairlead.dev/gpu-compute": "garbage"}}}
            await world.client.patch(PODS, "mal-0", garbage, world.namespace)
            async with running(world, catalog, "two", own_claims=False):
                await world.pod("late", mib=4096)
                pods = await world.until(
                    lambda pods: any(
                        each.spec.node_name or each.condition(SCHEDULED).message for each in late(pods)
                    )
                )
                (pending,) = late(pods)
                assert "lack memory (need 4.0 GiB, most 0 B free)" in pending.condition(SCHEDULED).message
                await world.delete("mal-0")
                await world.until(bound("late"))

    def late(pods: Iterable[LivePod]) -> list[LivePod]:
        return [each for each in pods if each.metadata.name == "late"]

    asyncio.run(scenario())


def test_pods_of_another_scheduler_hold_nothing_by_annotation(
    real_cluster: RealCluster, catalog: Catalog
) -> None:
    async def script(world: World) -> None:
        for number in range(2):
            name, note = f"ghost-{number}", {"gpu-fraction": "1"}
            node = world.nodes[0]
            await world.pod(name, notes=note, nodeName=node, schedulerName="default-scheduler")
        for number in range(2):
            await world.pod(f"whole-{number}", mib=4096)
        await world.until(bound("whole-0", "whole-1"))
        assert sorted((await world.allocated_bytes()).values()) == [4 * GIB, 4 * GIB]

    run_script(real_cluster, catalog, script, nodes=1)


def test_a_claim_without_room_for_a_mark_does_not_keep_a_new_leader_from_deciding(
    real_cluster: RealCluster, catalog: Catalog
) -> None:
    async def scenario() -> None:
        async with open_world(real_cluster, 1) as world:
            request = {"name": "gpu", "exactly": {"deviceClassName": "fairlead.dev"}}
            notes = {LEADER_EPOCH: "0", "filler": "x" * (256 * 1024 - len(f"{LEADER_EPOCH}0filler"))}
            body = {"metadata": {"name": "full", "annotations": notes}}
            body["spec"] = {"devices": {"requests": [request]}}
            await world.client.create(CLAIMS.raw(), body, world.namespace)
            await world.pod("hostile", resourceClaims=[{"name": "gpu", "resourceClaimName": "full"}])
            await world.pod("other", mib=1024)
            async with running(world, catalog) as lines:
                await world.until(bound("other"))
            assert "deciding; fenced 2 pending pods of the previous leader" in lines
            (claim, *_) = [each for each in await world.claims() if each.metadata.name == "full"]
            assert LEADER_EPOCH not in claim.metadata.annotations, "its version changed: a late write fails"

    asyncio.run(scenario())


def _plan(pod: LivePod, node: str) -> writes.BindingPlan:
    """Return the plan of an earlier leader: both pods on one device, one after the other."""
    share = DeviceShare("gpu-0", Bytes(4 * GIB), 0)
    request = Request(pod.metadata.name, pod.metadata.namespace, pod.metadata.uid)
    return writes.BindingPlan(pod, Placement(request, node, (share,)), own_claim=True)


def test_a_recording_of_a_live_replica_is_replayed_without_a_cluster(
    real_cluster: RealCluster, catalog: Catalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "recording"

    async def scenario() -> None:
        async with open_world(real_cluster, 1) as world:
            await world.pod("large", mib=4096)
            async with running(world, catalog, record=path) as lines:
                await world.pod("plain")
                await world.until(bound("large", "plain"))
            assert "stopped; released the Lease" in lines

    asyncio.run(scenario())
    assert main(["replay", str(path), "--effects"]) == 0
    text = capsys.readouterr().out
    assert "every effect is as recorded" in text
    assert {"Allocate", "Bind", "Fence", "RenewLease"} <= set(text.split())
